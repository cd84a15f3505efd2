package console

import (
	"io"
	"net/http"

	"payonce/internal/sequence"
	"payonce/internal/tenants"
)

const svgType = "image/svg+xml"

// picture is the page of a key's picture as a file.
func (c *Console) picture(contentType string, draw func(sequence.Diagram, io.Writer) error) page {
	return func(w http.ResponseWriter, r *http.Request, _ tenants.Principal) {
		if k, ok := c.readKey(w, r); ok {
			w.Header().Set("Content-Type", contentType)
			if contentType == svgType { // The image brings its own style.
				w.Header().Set("Content-Security-Policy",
					"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
			}
			_ = draw(sequence.Draw(k.life), w)
		}
	}
}
