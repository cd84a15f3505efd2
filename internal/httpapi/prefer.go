package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWait bounds Prefer: wait. If a client asks for more, it waits this long.
const maxWait = 10 * time.Second

// preference is what a client wants if the outcome is not there yet (RFC 7240).
type preference struct {
	async bool
	wait  time.Duration
}

// preferenceOf reads all Prefer headers. It ignores a preference that it does not know or cannot read, as the RFC
// requires. If a preference is repeated, the first one counts.
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

// awaited waits for the outcome of what a request reads, if the client prefers that.
func awaited(w http.ResponseWriter, r *http.Request, wait func(limit time.Duration) (waited bool, err error)) error {
	limit := preferenceOf(r.Header).wait
	if limit == 0 {
		return nil
	}
	waited, err := wait(limit)
	if waited && err == nil {
		sayWaited(w, limit)
	}
	return err
}

// sayWaited tells the client that the answer has waited as the client preferred.
func sayWaited(w http.ResponseWriter, limit time.Duration) {
	w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(limit.Seconds())))
}
