package operator

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// Each key is in one of three indexes. A part that read more than its own index would repeat keys, and would push new
// ones out of a short list.
func TestLatestKeysAreThoseReservedLastWithoutTheExpiredOnes(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.rowsOfKeys("acme", 0, "expired", "completed", "unknown", "failed_retryable", "in_progress")
	all := []string{"acme-4-in_progress", "acme-3-failed_retryable", "acme-2-unknown", "acme-1-completed"}
	for _, limit := range []int32{1, 2, 10} {
		latest, err := o.ops.LatestKeys(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range latest {
			got = append(got, k.Key)
			if answered := k.ResponseStatus == 201; answered != (k.Status == idempotency.CompletedStatus) {
				t.Errorf("%s has the response %d", k.Key, k.ResponseStatus)
			}
		}
		wantNames(t, "the latest", got, all[:min(int(limit), len(all))]...)
	}
}

func TestKeyIsShownUnderItsWholeNameAlone(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref, subject := idempotency.StoredRef("acme", payment.CreateOperation, clientKey), uuid.Must(uuid.NewV7())
	o.keyAsIs(ref, idempotency.CompletedStatus, subject)
	o.movements("a-neighbour", subject)
	o.movements("acme", uuid.Must(uuid.NewV7()))
	if rows, err := o.ops.ShowKey(t.Context(), ref); err != nil || string(rows.Movement) != "null" {
		t.Errorf("a key without a payment is shown with %s, %v", rows.Movement, err)
	}
	for name, other := range neighboursOf(ref) {
		if rows, err := o.ops.ShowKey(t.Context(), other); !errors.Is(err, idempotency.ErrNoKey) {
			t.Errorf("another %s: shown is %s, %v", name, rows.Key, err)
		}
	}
	others := slices.Collect(maps.Values(neighboursOf(ref)))
	if stamps, err := o.ops.Stamps(t.Context(), others); err != nil || len(stamps) != 0 {
		t.Errorf("keys that do not exist have the stamps %v, %v", stamps, err)
	}
}

// A page that is open waits for a change of the stamp. It would be loaded again whenever anything happens.
func TestStampOfAKeyChangesWithItsOwnEventsAndPaymentAlone(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref, subject := idempotency.StoredRef("acme", payment.CreateOperation, clientKey), uuid.Must(uuid.NewV7())
	o.keyAsIs(ref, idempotency.CompletedStatus, subject)
	o.movements("acme", subject)
	stamp := func() string {
		stamps, err := o.ops.Stamps(t.Context(), []idempotency.Ref{ref})
		if err != nil || len(stamps) != 1 {
			t.Fatalf("stamps are %v, %v", stamps, err)
		}
		return stamps[ref]
	}
	happens := func(ref idempotency.Ref) {
		o.exec(`INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status,
				to_status, reason)
			VALUES ($1, $2, $3, 1, 1, 'owner', 'in_progress', 'completed', '')`,
			ref.Tenant, string(ref.Operation), ref.Key.String())
	}
	happens(ref)
	before := stamp()
	for name, other := range neighboursOf(ref) {
		happens(other)
		if after := stamp(); after != before {
			t.Errorf("something happens to another %s: the stamp was %q and is %q", name, before, after)
		}
	}
	o.movements("a-neighbour", subject)
	o.movements("acme", uuid.Must(uuid.NewV7()))
	if after := stamp(); after != before {
		t.Errorf("there are other payments: the stamp was %q and is %q", before, after)
	}
	happens(ref)
	second := stamp()
	o.exec("UPDATE payments SET refund_held_minor = 100, refunded_minor = 100 WHERE (tenant_id, id) = ('acme', $1)",
		subject)
	third := stamp()
	o.exec("UPDATE payments SET moved_outside_minor = 100 WHERE (tenant_id, id) = ('acme', $1)", subject)
	if fourth := stamp(); second == before || third == second || fourth == third {
		t.Errorf("the stamps are %q, after an event %q, after a refund %q, and after others' refund %q", before, second,
			third, fourth)
	}
}
