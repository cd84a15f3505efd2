package native

import (
	"encoding/base64"
	"errors"
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

// The example of the reference implementations (Svix and Standard Webhooks share it).
const (
	exampleSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	exampleTimestamp = "1614265330"
	exampleBody      = `{"test": 2432232314}`
	exampleSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var exampleSent = time.Unix(1614265330, 0).UTC()

// wantErr checks that an error is the one, and no other.
func wantErr(t rapid.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// secretOf is a secret of so many bytes, all the same.
func secretOf(b byte, bytes int) string {
	return secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(b)), bytes)))
}

// receiving takes webhooks with the example's secret, at a time that is so much later than the example's timestamp.
func receiving(t testing.TB, later time.Duration, more ...string) *Client {
	t.Helper()
	return receivingAt(t, exampleSent.Add(later), append([]string{exampleSecret}, more...)...)
}

func receivingAt(t testing.TB, now time.Time, secrets ...string) *Client {
	t.Helper()
	c, err := New("http://psp", "secret", gateway.DefaultLimits(), secrets, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sign is the signature by the reference implementation.
func sign(t testing.TB, secret, id string, seconds int64, body []byte) string {
	t.Helper()
	w, err := reference.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Sign(id, time.Unix(seconds, 0), body)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOneRightSignatureAmongOthersIsEnough(t *testing.T) {
	t.Parallel()
	c := receiving(t, 0)
	wrong := "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, header := range map[string]string{
		"first": exampleSignature + " " + wrong, "last": wrong + " " + exampleSignature, "twice": exampleSignature +
			" " + exampleSignature,
		"behind another version": "v1a,abc v2,abc " + exampleSignature, "behind rubbish": ", v1 v1, ,, " +
			exampleSignature,
		"more spaces": "  " + exampleSignature + "  ",
	} {
		if _, err := c.verify(exampleID, exampleTimestamp, header, []byte(exampleBody)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsNotSignedByUsIsRefused(t *testing.T) {
	t.Parallel()
	c := receiving(t, 0)
	bare := strings.TrimPrefix(exampleSignature, "v1,")
	other := sign(t, secretOf('o', 32), exampleID, exampleSent.Unix(), []byte(exampleBody))
	for name, row := range map[string]struct{ id, timestamp, signature, body string }{
		"another body": {exampleID, exampleTimestamp, exampleSignature,
			strings.Replace(exampleBody, "2432232314", "2432232315", 1)},
		"a space more":          {exampleID, exampleTimestamp, exampleSignature, exampleBody + " "},
		"no body":               {exampleID, exampleTimestamp, exampleSignature, ""},
		"another id":            {exampleID + "k", exampleTimestamp, exampleSignature, exampleBody},
		"another time":          {exampleID, "1614265331", exampleSignature, exampleBody},
		"another secret":        {exampleID, exampleTimestamp, other, exampleBody},
		"another version":       {exampleID, exampleTimestamp, "v2," + bare, exampleBody},
		"the asymmetric one":    {exampleID, exampleTimestamp, "v1a," + bare, exampleBody},
		"no version":            {exampleID, exampleTimestamp, bare, exampleBody},
		"a version in capitals": {exampleID, exampleTimestamp, "V1," + bare, exampleBody},
		"cut off":               {exampleID, exampleTimestamp, strings.TrimSuffix(exampleSignature, "="), exampleBody},
		"continued":             {exampleID, exampleTimestamp, exampleSignature + ",v1", exampleBody},
		"other bits at the end": {exampleID, exampleTimestamp, strings.Replace(exampleSignature, "OE=", "OF=", 1),
			exampleBody},
		"empty":   {exampleID, exampleTimestamp, "v1,", exampleBody},
		"a comma": {exampleID, exampleTimestamp, ",", exampleBody},
	} {
		sent, err := c.verify(row.id, row.timestamp, row.signature, []byte(row.body))
		if wantErr(t, err, gateway.ErrSignature); !sent.IsZero() {
			t.Errorf("%s: refused, and sent at %s", name, sent)
		}
	}
}

func TestHeaderThatIsMissingOrMalformedIsNamed(t *testing.T) {
	t.Parallel()
	c := receiving(t, 0)
	refuse := func(want error, header, id, timestamp, signature string) {
		t.Helper()
		_, err := c.verify(id, timestamp, signature, []byte(exampleBody))
		if wantErr(t, err, want); !strings.HasSuffix(err.Error(), ": "+header) {
			t.Errorf("%q does not name %s", err, header)
		}
	}
	refuse(gateway.ErrHeaderMissing, "webhook-id", "", exampleTimestamp, exampleSignature)
	refuse(gateway.ErrHeaderMissing, "webhook-timestamp", exampleID, "", exampleSignature)
	refuse(gateway.ErrHeaderMissing, "webhook-signature", exampleID, exampleTimestamp, "")
	for _, id := range []string{
		strings.Repeat("i", 256), "with space", " lead", "trail ", "tab\t", "new\nline", "nul\x00", "ümlaut", "del\x7f",
		"a.b", ".",
	} {
		refuse(gateway.ErrMalformed, "webhook-id", id, exampleTimestamp,
			sign(t, exampleSecret, id, exampleSent.Unix(), []byte(exampleBody)))
	}
	for _, timestamp := range []string{
		"+1614265330", "-1614265330", "01614265330", " 1614265330", "1614265330 ", "1614265330.0", "1.614265330e9",
		"0x60379932",
		"2021-02-25T15:02:10Z", "now", "0", "1614265330000000", "99999999999999999999", "1614265330, 1614265330",
	} {
		refuse(gateway.ErrMalformed, "webhook-timestamp", exampleID, timestamp, exampleSignature)
	}
}

// The reference writes a full stop between the parts, and takes one inside of them, too.
func TestOneSignatureCannotStandForTwoMessages(t *testing.T) {
	t.Parallel()
	c := receiving(t, 0)
	signature := sign(t, exampleSecret, "a."+exampleTimestamp, exampleSent.Unix(), []byte("body"))
	_, err := c.verify("a", exampleTimestamp, signature, []byte(exampleTimestamp+".body"))
	if err != nil {
		t.Fatalf("the other reading of it is no message: %v", err)
	}
	_, err = c.verify("a."+exampleTimestamp, exampleTimestamp, signature, []byte("body"))
	wantErr(t, err, gateway.ErrMalformed)
}

func TestLongestAndShortestIDsAreTaken(t *testing.T) {
	t.Parallel()
	c := receiving(t, 0)
	for _, id := range []string{"!", "~", "-", "/", strings.Repeat("i", 255)} {
		if _, err := c.verify(id, exampleTimestamp, sign(t, exampleSecret, id, exampleSent.Unix(), nil),
			nil); err != nil {
			t.Errorf("%.20q: %v", id, err)
		}
	}
}

func TestGenuineMessageIsTakenWithinFiveMinutes(t *testing.T) {
	t.Parallel()
	const tolerance = 5 * time.Minute
	for later, stale := range map[time.Duration]bool{
		0: false, tolerance: false, -tolerance: false, tolerance + 1: true, -tolerance - 1: true, 24 * time.Hour: true,
		-24 * time.Hour: true,
	} {
		_, err := receiving(t, later).verify(exampleID, exampleTimestamp, exampleSignature, []byte(exampleBody))
		if stale {
			wantErr(t, err, gateway.ErrStale)
		} else if err != nil {
			t.Errorf("%s later: %v", later, err)
		}
		// A forgery is not told that its time is wrong.
		_, err = receiving(t, later).verify(exampleID, exampleTimestamp, "v1,abc", []byte(exampleBody))
		wantErr(t, err, gateway.ErrSignature)
	}
	far := strconv.Itoa(999_999_999_999) // further from now than a duration reaches
	_, err := receiving(t, 0).verify(exampleID, far, sign(t, exampleSecret, exampleID, 999_999_999_999, nil), nil)
	wantErr(t, err, gateway.ErrStale)
}

func TestSecretThatIsNoneIsRefusedAndNotRepeated(t *testing.T) {
	t.Parallel()
	const canary = "Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5"
	for name, secret := range map[string]string{
		"no prefix": canary, "another prefix": "whsk_" + canary, "prefix in capitals": "WHSEC_" + canary,
		"no base64":    "whsec_" + canary + "!",
		"URL alphabet": "whsec_" + canary + "-_-_", "no padding": "whsec_" + canary + "Y2", "only the prefix": "whsec_",
		"empty":          "",
		"a space before": " whsec_" + canary, "23 bytes": secretOf('c', 23), "65 bytes": secretOf('c', 65),
	} {
		_, err := New("http://psp", "secret", gateway.DefaultLimits(), []string{exampleSecret, secret}, time.Now)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if !strings.HasPrefix(err.Error(), "WEBHOOK_SECRETS: webhook secret 2 of 2 ") {
			t.Errorf("%s: %q does not say which", name, err)
		}
		for _, part := range []string{canary, secretOf('c', 12)[6:]} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error repeats the secret: %v", name, err)
			}
		}
	}
	for _, secret := range []string{secretOf('c', 24), secretOf('c', 64)} {
		receivingAt(t, exampleSent, secret)
	}
}

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
		c := receivingAt(t, time.Unix(seconds, 0).Add(skew), secrets...)
		signature := sign(t, secretOf(signer, 32), id, seconds, body)
		var want error
		switch {
		case !slices.Contains(active, signer):
			want = gateway.ErrSignature
		case skew.Abs() > 5*time.Minute:
			want = gateway.ErrStale
		}
		sent, err := c.verify(id, strconv.FormatInt(seconds, 10), signature, body)
		if wantErr(rt, err, want); err == nil && sent.Unix() != seconds {
			rt.Fatalf("sent at %s", sent)
		}
		changed := append(slices.Clone(body), 'x')
		if len(body) > 0 {
			changed = slices.Clone(body)
			changed[rapid.IntRange(0, len(body)-1).Draw(rt, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		}
		_, err = c.verify(id, strconv.FormatInt(seconds, 10), signature, changed)
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
		sent, err := receiving(t, 0).verify(id, timestamp, signature, body)

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
