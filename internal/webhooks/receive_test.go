package webhooks

import (
	"net/http"
	"strings"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiverAt takes the PSP's webhooks in, and its clock differs by so much from the sender's.
func (d *fixture) receiverAt(later time.Duration) *Receiver {
	d.t.Helper()
	verifier, err := native.NewVerifier([]string{secret}, 5*time.Minute,
		func() time.Time { return d.sent.Add(later) })
	if err != nil {
		d.t.Fatal(err)
	}
	psp, err := native.New("http://psp.test", "secret", gateway.DefaultLimits(), verifier, time.Now,
		func(string, time.Duration) {})
	if err != nil {
		d.t.Fatal(err)
	}
	return NewReceiver(psp, d.inbox)
}

func TestOnlyWhatIsVerifiedIsStored(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const id, body = "msg_1", `{"test": 2432232314}`
	signer, err := reference.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign(id, d.sent, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", "1795167000")
	header.Set("webhook-signature", signature)
	if d.sent.Unix() != 1795167000 {
		t.Fatalf("the fixture's time is %d", d.sent.Unix())
	}

	_, err = d.receiverAt(0).Receive(t.Context(), header, []byte(strings.Replace(body, "2", "3", 1)))
	wantErr(t, err, gateway.ErrSignature)
	_, err = d.receiverAt(time.Hour).Receive(t.Context(), header, []byte(body))
	wantErr(t, err, gateway.ErrStale)
	d.want(0, 0)

	receipt, err := d.receiverAt(0).Receive(t.Context(), header, []byte(body))
	if err != nil || receipt != (Received{}) {
		t.Fatalf("%#v, %v", receipt, err)
	}
	stored, err := d.inbox.Load(t.Context(), id)
	if err != nil || string(stored.Body) != body || !stored.SentAt.Equal(d.sent) {
		t.Fatalf("%+v, %v", stored, err)
	}
	d.want(1, 1)
}
