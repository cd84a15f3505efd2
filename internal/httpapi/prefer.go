package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWait bounds Prefer: wait. A longer wish is granted up to here.
const maxWait = 10 * time.Second

// preference is what a client wishes for an in-flight duplicate (RFC 7240).
type preference struct {
	async bool
	wait  time.Duration
}

// preferenceOf reads all Prefer headers. A preference that we do not know or cannot read is ignored, as the RFC asks; of
// repeated ones the first counts.
func preferenceOf(h http.Header) preference {
	var p preference
	seenWait := false
	for wish := range strings.SplitSeq(strings.Join(h.Values("Prefer"), ","), ",") {
		wish, _, _ = strings.Cut(wish, ";")
		name, value, _ := strings.Cut(wish, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async":
			p.async = true
		case "wait":
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err == nil && !seenWait {
				p.wait = min(time.Duration(seconds)*time.Second, maxWait)
				seenWait = true
			}
		}
	}
	return p
}
