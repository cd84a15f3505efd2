package tenants

import (
	"crypto/sha256"
	"testing"
	"time"
)

// A hit is what nearly every request is: the directory has read the table a moment ago.
func BenchmarkAuthenticate(b *testing.B) {
	now := time.Now()
	digest := sha256.Sum256([]byte("payonce_0123456789abcdef"))
	d := NewDirectory(nil, func() time.Time { return now })
	d.read = now
	d.entries = map[[sha256.Size]byte]Principal{digest: {Tenant: "acme"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Authenticate(b.Context(), "payonce_0123456789abcdef"); err != nil {
			b.Fatal(err)
		}
	}
}
