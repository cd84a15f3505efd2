package webhooks

import (
	"strings"
	"testing"
	"time"
)

func TestOnlyWhatIsVerifiedIsStored(t *testing.T) {
	t.Parallel()
	d := setup(t)
	genuine := Delivery{ID: exampleID, Timestamp: exampleTimestamp, Signature: exampleSignature,
		Body: []byte(exampleBody)}
	forged := genuine
	forged.Body = []byte(strings.Replace(exampleBody, "2", "3", 1))
	_, err := NewReceiver(verifierAt(t, 0), d.inbox).Receive(t.Context(), forged)
	wantErr(t, err, ErrSignature)
	_, err = NewReceiver(verifierAt(t, time.Hour), d.inbox).Receive(t.Context(), genuine)
	wantErr(t, err, ErrStale)
	d.want(0, 0)

	receipt, err := NewReceiver(verifierAt(t, 0), d.inbox).Receive(t.Context(), genuine)
	if err != nil || receipt != (Received{}) {
		t.Fatalf("%#v, %v", receipt, err)
	}
	stored, err := d.inbox.Load(t.Context(), exampleID)
	if err != nil || string(stored.Body) != exampleBody || !stored.SentAt.Equal(exampleSent) {
		t.Fatalf("%+v, %v", stored, err)
	}
	d.want(1, 1)
}
