package console

import (
	"net/http"

	"payonce/internal/tenants"
)

func (c *Console) keySVG(w http.ResponseWriter, r *http.Request, _ tenants.Principal) {
	if k, ok := c.readKey(w, r); ok {
		w.Header().Set("Content-Type", "image/svg+xml")
		// The image brings its own style.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		_ = k.diagram().SVG(w)
	}
}

func (c *Console) keyMermaid(w http.ResponseWriter, r *http.Request, _ tenants.Principal) {
	if k, ok := c.readKey(w, r); ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_ = k.diagram().Mermaid(w)
	}
}

// keyText is the picture for a terminal. It is also for a shell, which sends an API key in place of a session.
func (c *Console) keyText(w http.ResponseWriter, r *http.Request, _ tenants.Principal) {
	if k, ok := c.readKey(w, r); ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_ = k.diagram().Text(w)
	}
}
