package kafkalog

import (
	"errors"
	"fmt"
	"strings"
)

// modules are Kafka's login modules for the mechanisms that take a user and a password.
func modules() map[string]string {
	const at = "org.apache.kafka.common.security."
	return map[string]string{
		mechPlain: at + "plain.PlainLoginModule", mechScram256: at + "scram.ScramLoginModule", mechScram512: at + "scram.ScramLoginModule",
	}
}

// errJAAS says what a sasl.jaas.config looks like. No message holds any part of one: it is a secret.
var errJAAS = errors.New(`is not of the form MODULE required username="..." password="...";`)

// parseJAAS reads one entry of a JAAS configuration, as Kafka's JaasConfig does: the module, a flag, options key=value with
// the value in double quotes or bare, a semicolon.
func parseJAAS(text, mechanism string) (user, password string, err error) {
	toks, err := jaasTokens(text)
	if err != nil {
		return "", "", err
	}
	const ends = 3 // module, flag, semicolon
	if len(toks) < ends || toks[len(toks)-1] != (jaasToken{text: ";"}) {
		return "", "", errJAAS
	}
	if want := modules()[mechanism]; toks[0].text != want {
		return "", "", fmt.Errorf("names another login module than %s=%s needs, which is %s", cMechanism, mechanism, want)
	}
	switch strings.ToLower(toks[1].text) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return "", "", errJAAS
	}
	options := map[string]string{}
	for rest := toks[2 : len(toks)-1]; len(rest) > 0; rest = rest[ends:] {
		if len(rest) < ends || rest[1] != (jaasToken{text: "="}) || rest[0].quoted {
			return "", "", errJAAS
		}
		options[rest[0].text] = rest[2].text
	}
	if options["username"] == "" || options["password"] == "" {
		return "", "", errors.New("lacks username or password")
	}
	if options["tokenauth"] == "true" {
		return "", "", errors.New("delegation tokens (tokenauth) are not supported")
	}
	return options["username"], options["password"], nil
}

type jaasToken struct {
	text   string
	quoted bool
}

// jaasTokens splits a configuration: quoted strings with \ before any character, the signs = and ;, and words between spaces.
func jaasTokens(text string) (toks []jaasToken, err error) {
	rest := strings.TrimLeft(text, " \t\r\n")
	for rest != "" {
		var tok jaasToken
		switch rest[0] {
		case '"':
			if tok.text, rest, err = jaasString(rest[1:]); err != nil {
				return nil, err
			}
			tok.quoted = true
		case '=', ';':
			tok.text, rest = rest[:1], rest[1:]
		default:
			i := strings.IndexAny(rest, " \t\r\n=;\"")
			if i < 0 {
				i = len(rest)
			}
			tok.text, rest = rest[:i], rest[i:]
		}
		toks = append(toks, tok)
		rest = strings.TrimLeft(rest, " \t\r\n")
	}
	return toks, nil
}

func jaasString(s string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errJAAS
}
