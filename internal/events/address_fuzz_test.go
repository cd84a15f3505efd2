package events

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// A URL that is taken can be asked for as it is, and names no address that must not be reached.
func FuzzCheckURL(f *testing.F) {
	f.Add("https://shop.example/payonce")
	f.Add("https://user:secret@[::ffff:10.0.0.1]:0/#x")
	f.Add("https://shop.Localhost.:8443/in")
	f.Add("https://127.0x1/in")
	f.Fuzz(func(t *testing.T, url string) {
		if (Addresses{}).CheckURL(url) != nil {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		if err != nil || r.URL.Scheme != "https" || r.URL.Host == "" || r.URL.User != nil || len(url) > maxURL {
			t.Fatalf("%q is taken: %v, %v", url, r, err)
		}
		addr, err := netip.ParseAddr(r.URL.Hostname())
		if err == nil && !(Addresses{}).mayReach(addr) || err != nil && !strings.Contains(r.URL.Hostname(), ".") {
			t.Fatalf("%q is taken", url)
		}
	})
}
