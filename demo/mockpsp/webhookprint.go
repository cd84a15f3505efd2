package mockpsp

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// getWebhook prints an entry's webhook as a curl command that sends it, signed as of now, in place of sending it.
func (s *Server) getWebhook(w http.ResponseWriter, r *http.Request) {
	by, of, err := s.findSubject(r.PathValue("entryId"))
	if err != nil {
		s.refuse(err).deliver(w)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, by.sender.curl(of)) // the reader may have gone
}

// curl writes the command. The receiver takes the signature for some minutes.
func (s *webhookSender) curl(of Subject) string {
	hook, header := s.signed(of, "", s.now())
	target := s.url
	if parsed, err := url.Parse(s.url); err == nil {
		target = parsed.Redacted()
	}
	var signed strings.Builder
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(&signed, "  -H %s \\\n", quoteForShell(strings.ToLower(name)+": "+header.Get(name)))
	}
	return fmt.Sprintf("curl -i %s -H 'Content-Type: application/json' \\\n%s  --data-raw %s\n",
		quoteForShell(target), signed.String(), quoteForShell(string(hook.Body)))
}

// quoteForShell makes one word of a text, whatever is in it. References and reasons are chosen by others.
func quoteForShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
