package invariants

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"payonce/internal/problem"
	"payonce/lab/history"
)

const (
	// longestRetryAfter is the longest that a client is sent away for.
	longestRetryAfter = 5
	// waitTolerance is how much earlier than it was asked to a wait may end: the two ends read clocks of their own.
	waitTolerance = 100 * time.Millisecond
	longestWait   = 10
)

// surfaces is the part of I3 that needs nothing but an answer: each header and each member of a problem that the
// contract promises for it.
func surfaces(_ world, e Evidence) []Violation {
	var found []Violation
	requests := map[string]bool{}
	for _, o := range e.History {
		if !keyed(o) || !o.Answered() {
			continue
		}
		wrong := readFace(o).wrong()
		if id := o.Header.Get("X-Request-Id"); wrong == "" && requests[id] {
			wrong = "another answer has the same X-Request-Id"
		} else {
			requests[id] = true
		}
		if wrong != "" {
			found = append(found, Violation{"I3", nameOf(o).String(),
				fmt.Sprintf("client %d was answered %d: %s", o.Client, o.Status, wrong)})
		}
	}
	return found
}

func keyed(o history.Operation) bool {
	return o.Route == history.PaymentsRoute || o.Route == history.RefundsRoute
}

// face is an answer by itself.
type face struct {
	history.Operation
	body document
	code problem.Code
}

func readFace(o history.Operation) face {
	body := readDocument(o.Answer)
	return face{o, body, problem.Code(body.text("code"))}
}

// wrong names the first thing that the contract does not have so.
func (f face) wrong() string {
	for _, look := range []func() string{f.always, f.problem, f.key, f.expiry, f.location, f.retryAfter, f.preference} {
		if text := look(); text != "" {
			return text
		}
	}
	return ""
}

// one is a header that has to be there once, or "".
func (f face) one(name string) string {
	if values := f.Header.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

func (f face) always() string {
	kind := "application/json"
	if f.Status >= http.StatusBadRequest {
		kind = problem.ContentType
	}
	switch {
	case f.Status == http.StatusInternalServerError:
		return fmt.Sprintf("something is wrong on the server's side: %s", f.Answer)
	case f.one("Content-Type") != kind:
		return fmt.Sprintf("Content-Type is %q, not %q", f.Header.Values("Content-Type"), kind)
	case f.one("X-Request-Id") == "":
		return "there is no X-Request-Id"
	case f.one("Cache-Control") != "no-store":
		return fmt.Sprintf("Cache-Control is %q: somebody may keep it", f.Header.Values("Cache-Control"))
	}
	return ""
}

// problem holds a problem document against the catalogue.
func (f face) problem() string {
	if f.Status < http.StatusBadRequest {
		return ""
	}
	entry, known := problem.Lookup(f.code)
	if !known {
		return fmt.Sprintf("the code %q is not in the catalogue", f.code)
	}
	want := document{}
	want.set("title", entry.Title)
	want.set("status", entry.Status)
	want.set("retryable", entry.Retryable)
	want.set("newKeySafe", entry.NewKeySafe)
	got := f.body.without("type", "detail", "instance", "code", "paymentId", "refundId", "declineCode", "errors")
	switch {
	case !strings.HasSuffix(f.body.text("type"), "/problems/"+string(f.code)):
		return fmt.Sprintf("the type %q does not lead to the code %s", f.body.text("type"), f.code)
	case f.body.text("detail") == "" || f.body.text("instance") == "":
		return "there is no detail, or no instance"
	case f.Status != entry.Status:
		return fmt.Sprintf("the code %s belongs to %d", f.code, entry.Status)
	}
	return want.differs(got)
}

// beforeKey are the codes of refusals that come before the key is read.
func beforeKey(code problem.Code) bool {
	return slices.Contains([]problem.Code{
		problem.Unauthenticated, problem.Forbidden, problem.RateLimited, problem.ShuttingDown,
		problem.IdempotencyKeyMissing,
		problem.IdempotencyKeyInvalid, problem.NotFound, problem.MethodNotAllowed,
	}, code)
}

func (f face) key() string {
	// A store that is away is met by authentication, before the key is asked for.
	unread := f.code == problem.IdempotencyStoreUnavailable && len(f.Header.Values("Idempotent-Replayed")) == 0
	if unread || beforeKey(f.code) {
		return ""
	}
	replayed := f.one("Idempotent-Replayed")
	switch {
	case f.one("Idempotency-Key") != f.Key:
		return fmt.Sprintf("Idempotency-Key is %q, not %q", f.Header.Values("Idempotency-Key"), f.Key)
	case replayed != "false" && (replayed != "true" || !isFinal(f.Operation)):
		return fmt.Sprintf("Idempotent-Replayed is %q", f.Header.Values("Idempotent-Replayed"))
	}
	return ""
}

// reserved reports whether the answer is about a key that there is.
func (f face) reserved() bool {
	switch f.code {
	case problem.IdempotencyKeyInProgress, problem.IdempotencyKeyReusedWithDifferentPayload:
		return true
	case problem.PSPUnavailable:
		return f.body["paymentId"] != ""
	default:
		return isFinal(f.Operation) || f.Status == http.StatusAccepted
	}
}

func (f face) expiry() string {
	expires := f.one("Idempotency-Key-Expires")
	if _, err := http.ParseTime(expires); f.reserved() && err != nil {
		return fmt.Sprintf("Idempotency-Key-Expires is %q", f.Header.Values("Idempotency-Key-Expires"))
	}
	return ""
}

// location is where what the answer names is to be found.
func (f face) location() string {
	want := ""
	if isFinal(f.Operation) || f.Status == http.StatusAccepted {
		want = "/payments/" + f.body.text("paymentId")
		if f.Route == history.RefundsRoute {
			want = "/refunds/" + f.body.text("refundId")
		}
	}
	if got := f.one("Location"); got != want {
		return fmt.Sprintf("Location is %q, not %q", got, want)
	}
	return ""
}

func (f face) retryAfter() string {
	promised := f.Status == http.StatusAccepted || f.Status == http.StatusTooManyRequests ||
		f.Status == http.StatusServiceUnavailable ||
		f.code == problem.IdempotencyKeyInProgress || f.code == problem.IdempotencyKeyHeld
	given := f.Header.Values("Retry-After")
	if !promised {
		if len(given) > 0 {
			return fmt.Sprintf("Retry-After is %q, and nothing else is to be expected later", given)
		}
		return ""
	}
	seconds, err := strconv.Atoi(f.one("Retry-After"))
	if err != nil || seconds < 1 || seconds > longestRetryAfter {
		return fmt.Sprintf("Retry-After is %q", given)
	}
	return ""
}

// preference holds the answer against what the client has preferred.
func (f face) preference() string {
	applied := f.Header.Values("Preference-Applied")
	busy := f.code == problem.IdempotencyKeyInProgress
	seconds, waits := strings.CutPrefix(f.Prefer, "wait=")
	n, _ := strconv.Atoi(seconds)
	patience := time.Duration(min(n, longestWait)) * time.Second
	switch {
	case busy && f.Prefer == "respond-async":
		return "the client has preferred 202 to that"
	case busy && waits && len(applied) > 0 && f.Return-f.Call < patience-waitTolerance:
		return fmt.Sprintf("the client would have waited %s, and was answered after %s", patience, f.Return-f.Call)
	case slices.ContainsFunc(applied, func(a string) bool { return a != f.Prefer }):
		return fmt.Sprintf("Preference-Applied is %q, and the client has preferred %q", applied, f.Prefer)
	case waits && n > 0 && isFinal(f.Operation) && len(applied) != 1:
		return "Preference-Applied does not say that it has waited"
	}
	return ""
}
