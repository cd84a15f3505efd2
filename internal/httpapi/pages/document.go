package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"
)

// caching is a Cache-Control value.
type caching string

const (
	// keep is for URLs whose content never changes.
	keep caching = "public, max-age=31536000, immutable"
	// revalidate lets browsers keep a copy but ask for its ETag each time.
	revalidate caching = "no-cache"
)

// document serves fixed bytes. Its ETag is their hash, so it survives restarts and is the same on every server.
func document(contentType string, cache caching, content []byte) http.Handler {
	hash := sha256.Sum256(content)
	etag := `"` + hex.EncodeToString(hash[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", contentType)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", string(cache))
		header.Set("ETag", etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}

func embedded(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("read %s: %v", name, err)) // go:embed has checked that it is there
	}
	return content
}
