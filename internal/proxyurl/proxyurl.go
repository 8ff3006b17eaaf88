// Package proxyurl reads the storage.proxy.* settings, which every driver over HTTP has.
package proxyurl

import (
	"net"
	"net/url"
	"strconv"

	"github.com/tierkit/tierkit/internal/settings"
)

// The settings. All but the last are Aiven's.
const (
	keyHost     = "storage.proxy.host"
	keyPort     = "storage.proxy.port"
	keyUser     = "storage.proxy.username"
	keyPassword = "storage.proxy.password"
	keyURL      = "storage.proxy.url"
)

// Settings returns the table.
func Settings() []settings.Setting {
	return []settings.Setting{
		{Name: keyHost, Type: settings.TypeString, With: []string{keyPort}, Doc: "Host of a SOCKS5 proxy."},
		{Name: keyPort, Type: settings.TypeInt, Min: "1", Max: "65535", With: []string{keyHost}, Doc: "Port of the SOCKS5 proxy."},
		{Name: keyUser, Type: settings.TypeString, With: []string{keyPassword, keyHost}, Doc: "User of the SOCKS5 proxy."},
		{Name: keyPassword, Type: settings.TypeSecret, With: []string{keyUser, keyHost}, Doc: "Password of the SOCKS5 proxy."},
		{Name: keyURL, Type: settings.TypeSecret, Conflicts: []string{keyHost}, Doc: "A proxy as a URL: `http://user:password@host:port`, `https://`, `socks5://`. Without any proxy setting `HTTPS_PROXY` and `HTTP_PROXY` hold."},
	}
}

// Parse returns the proxy, nil for none of the settings'.
func Parse(c *settings.Values) (*url.URL, error) {
	host, port := c.String(keyHost), c.Int(keyPort)
	user, password := c.String(keyUser), c.Secret(keyPassword)
	if text := c.Secret(keyURL); !text.IsZero() {
		u, err := url.Parse(text.Reveal())
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" && u.Scheme != "socks5h" {
			return nil, settings.Missing(keyURL, "must be a URL that begins with http://, https:// or socks5:// and has a host")
		}
		return u, nil
	}
	if host == "" {
		return nil, nil
	}
	u := &url.URL{Scheme: "socks5", Host: net.JoinHostPort(host, strconv.FormatInt(port, 10))}
	if user != "" {
		u.User = url.UserPassword(user, password.Reveal())
	}
	return u, nil
}
