package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/tierkit/tierkit/conformance"
)

// refused is a secret that no account has, and well-formed where it must be base64.
const refused = "dGllcmtpdC1jb25mb3JtYW5jZS1yZWZ1c2VkLXNlY3JldA=="

// s3Credentials are wrong ones, none, and a file of them, where the configuration has a key.
func s3Credentials(h *conformance.Harness) {
	//nolint:gosec // names of settings
	const id, secret, file, class = "storage.aws.access.key.id", "storage.aws.secret.access.key", "storage.aws.credentials.file", "storage.aws.credentials.provider.class"
	if h.Knobs.CheckedReads != nil {
		h.Knobs.CheckedReads["storage.s3.checksum"] = "crc32c" // what is not stored with an object cannot be compared
	}
	key, text := h.Settings[id], h.Settings[secret]
	if key == "" || text == "" {
		return // from the environment, a role, a file: nobody knows what would be wrong ones
	}
	h.Knobs.WrongCredentials = map[string]string{secret: refused}
	h.Knobs.NoCredentials = map[string]string{id: "", secret: "", class: "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"}
	if strings.HasPrefix(text, "file:") {
		return
	}
	h.Knobs.CredentialsFile = func(path string, good bool) (map[string]string, error) {
		now := text
		if !good {
			now = refused
		}
		lines := fmt.Sprintf("aws.access.key.id=%s\naws.secret.access.key=%s\n", key, now)
		return map[string]string{id: "", secret: "", file: path}, os.WriteFile(path, []byte(lines), 0o600)
	}
}

// azureCredentials are wrong ones, where the configuration has a key.
func azureCredentials(h *conformance.Harness) {
	const key = "storage.azure.account.key"
	if h.Settings[key] != "" {
		h.Knobs.WrongCredentials = map[string]string{key: refused}
	}
}
