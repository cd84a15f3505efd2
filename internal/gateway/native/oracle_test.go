package native

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"

	"payonce/internal/gateway"
)

// What the reference implementation signs is taken, within the tolerance; with anything changed, it is not.
func TestVerifierAgreesWithTheReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.StringMatching(`[!-\-/-~]{1,255}`).Draw(rt, "id")
		body := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "body")
		active := rapid.SliceOfNDistinct(rapid.ByteRange('a', 'z'), 1, 4, rapid.ID[byte]).Draw(rt, "active secrets")
		signer := rapid.ByteRange('a', 'z').Draw(rt, "signer")
		seconds := rapid.Int64Range(1, 999_999_999_999).Draw(rt, "timestamp")
		skew := time.Duration(rapid.Int64Range(-600_000, 600_000).Draw(rt, "skew in ms")) * time.Millisecond

		secrets := make([]string, len(active))
		for i, b := range active {
			secrets[i] = secretOf(b, 32)
		}
		now := time.Unix(seconds, 0).Add(skew)
		v, err := NewVerifier(secrets, 5*time.Minute, func() time.Time { return now })
		if err != nil {
			rt.Fatal(err)
		}
		signature := sign(t, secretOf(signer, 32), id, seconds, body)
		var want error
		switch {
		case !slices.Contains(active, signer):
			want = gateway.ErrSignature
		case skew.Abs() > 5*time.Minute:
			want = gateway.ErrStale
		}
		sent, err := v.Verify(id, strconv.FormatInt(seconds, 10), signature, body)
		if wantErr(rt, err, want); err == nil && sent.Unix() != seconds {
			rt.Fatalf("sent at %s", sent)
		}
		changed := append(slices.Clone(body), 'x')
		if len(body) > 0 {
			changed = slices.Clone(body)
			changed[rapid.IntRange(0, len(body)-1).Draw(rt, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		}
		_, err = v.Verify(id, strconv.FormatInt(seconds, 10), signature, changed)
		wantErr(rt, err, gateway.ErrSignature)
	})
}

// Whatever is sent: nothing is taken that the reference does not take, and nothing that it takes is refused but by a
// rule of ours that it lacks.
func FuzzVerify(f *testing.F) {
	f.Add(exampleID, exampleTimestamp, exampleSignature, []byte(exampleBody), false)
	f.Add(exampleID, exampleTimestamp, "v2,abc", []byte(exampleBody), true)
	f.Add("a.b", "+1614265330", "v1", []byte{}, true)
	f.Add("", "1614265331", ",, ,", []byte("\x00"), true)
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte, genuine bool) {
		seconds, numberErr := strconv.ParseInt(timestamp, 10, 64)
		if genuine && numberErr == nil {
			signature += " " + sign(t, exampleSecret, id, seconds, body)
		}
		sent, err := verifierAt(t, 0).Verify(id, timestamp, signature, body)

		w, _ := reference.NewWebhook(exampleSecret)
		h := http.Header{}
		h.Set(reference.HeaderWebhookID, id)
		h.Set(reference.HeaderWebhookTimestamp, timestamp)
		h.Set(reference.HeaderWebhookSignature, signature)
		theirs := w.VerifyIgnoringTimestamp(body, h)
		if err == nil {
			if theirs != nil || sent.Sub(exampleSent).Abs() > 5*time.Minute {
				t.Fatalf("taken, sent at %s; the reference says %v", sent, theirs)
			}
			return
		}
		stricter := !idForm.MatchString(id) || !timestampForm.MatchString(timestamp) || sentFar(seconds) ||
			slices.ContainsFunc(strings.Split(signature, " "), func(s string) bool { return strings.Count(s, ",") > 1 })
		if theirs == nil && !stricter {
			t.Fatalf("refused with %v, and the reference takes it", err)
		}
	})
}

func sentFar(seconds int64) bool {
	return time.Unix(seconds, 0).Sub(exampleSent).Abs() > 5*time.Minute
}
