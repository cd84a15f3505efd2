package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"payonce/internal/problem"
)

// caching is a Cache-Control value.
type caching string

const (
	// keep is for URLs whose content never changes.
	keep caching = "public, max-age=31536000, immutable"
	// revalidate lets browsers keep a copy but ask for its ETag each time.
	revalidate caching = "no-cache"
)

// document serves the fixed bytes that read returns. Its ETag is their hash, so it survives restarts and is the same on
// every server. The first request reads and hashes them: the reader alone has two megabytes, for which no start waits.
// http.ServeContent would also answer parts (206), and refuse some with a text of its own (412, 416): answers that
// openapi.yaml does not have.
func document(contentType string, cache caching, read func() []byte) http.Handler {
	fixed := sync.OnceValues(func() (content []byte, etag string) {
		content = read()
		hash := sha256.Sum256(content)
		return content, `"` + hex.EncodeToString(hash[:16]) + `"`
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, etag := fixed()
		header := w.Header()
		header.Set("Content-Type", contentType)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", string(cache))
		header.Set("ETag", etag)
		if matches(r.Header.Values("If-None-Match"), etag) {
			header.Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		header.Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content) // a client that has gone needs no document
	})
}

// matches reports whether one of the ETags is in If-None-Match, which compares weakly (RFC 9110, section 13.1.2).
func matches(ifNoneMatch []string, etag string) bool {
	for given := range strings.SplitSeq(strings.Join(ifNoneMatch, ","), ",") {
		if given = strings.TrimSpace(given); given == "*" || strings.TrimPrefix(given, "W/") == etag {
			return true
		}
	}
	return false
}

// embedded returns the function that reads an embedded file.
func embedded(name string) func() []byte {
	return func() []byte {
		content, err := files.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("read %s: %v", name, err)) // the names are ours, and a test reads each
		}
		return content
	}
}

// The OpenAPI document has these texts where the addresses of an installation belong.
const (
	documentedPublic   = "http://localhost:8080"
	documentedOperator = "http://localhost:8081"
	documentedServer   = "  - url: /\n    description: The server that shows you this page.\n"
)

// demoOnly is a part of the document that only the demo shows, with its marks.
var demoOnly = regexp.MustCompile(`(?s) *<!-- demo -->\n(.*?) *<!-- end -->\n`)

// keys are the demo's API keys in the demo, which alone has the mock PSP. Elsewhere they would be refused.
func (a Addresses) keys() []string {
	if a.PSP != "" {
		return nil
	}
	return []string{"demo-acme-readonly-key", placeholder, "demo-acme-key", placeholder, "demo-globex-key", placeholder,
		"demo-operator-key", placeholder}
}

const placeholder = "YOUR_API_KEY"

// published is the document with the addresses of this installation, also in the paths of its examples. server: what it
// says of the server that shows it.
func (a Addresses) published(document []byte, server string) []byte {
	kept := ""
	if a.PSP != "" {
		kept = "$1"
	}
	document = demoOnly.ReplaceAll(document, []byte(kept))
	pairs := append(a.keys(), documentedServer, server, documentedPublic, a.Public, documentedOperator, a.Operator)
	for _, path := range []string{"/payments", "/refunds", "/webhooks", "/idempotency-keys", "/webhook-endpoints",
		"/events"} {
		pairs = append(pairs, ": "+path, ": "+problem.Path(a.Public, path))
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(document)))
}
