package mockpsp

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// getWebhook prints an entry's webhook as a curl command that sends it, signed as of now, in place of sending it.
func (s *Server) getWebhook(w http.ResponseWriter, r *http.Request) {
	found := s.ledger.findAnywhere(r.PathValue("entryId"))
	if found == nil {
		s.refuse(noSuchEntry()).deliver(w)
		return
	}
	if !s.webhooks.on() {
		s.refuse(webhooksOff()).deliver(w)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, s.webhooks.sender.curl(&found.Entry)) // the reader may have gone
}

// curl writes the command. The receiver takes the signature for some minutes.
func (s *webhookSender) curl(e *entry) string {
	hook := webhookOf(e)
	signed := s.sign(hook, e, "", s.now())
	target := s.url
	if parsed, err := url.Parse(s.url); err == nil {
		target = parsed.Redacted()
	}
	return fmt.Sprintf("curl -i %s -H 'Content-Type: application/json' \\\n"+
		"  -H 'webhook-id: %s' -H 'webhook-timestamp: %s' \\\n  -H 'webhook-signature: %s' \\\n  --data-raw %s\n",
		quoteForShell(target), hook.id, signed.timestamp, signed.signature, quoteForShell(string(signed.body)))
}

// quoteForShell makes one word of a text, whatever is in it. References and reasons are chosen by others.
func quoteForShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
