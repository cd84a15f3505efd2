package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// scramIterations is PostgreSQL's default.
const scramIterations = 4096

// scramVerifier is what PostgreSQL stores instead of a password (RFC 5803, as in pg_authid). With it, a login can be
// checked but not made. It is sent instead of the password, so that the password does not get into the server's log.
// psql's \password does the same.
func scramVerifier(password string) (string, error) {
	if password == "" {
		return "", errors.New("is empty")
	}
	for _, c := range []byte(password) {
		if c < ' ' || c > '~' {
			return "", errors.New("is not printable ASCII") // Other characters would need normalisation (RFC 4013).
		}
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive key: %w", err)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, text(salt), text(stored[:]),
		text(sign(salted, "Server Key"))), nil
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
