package plan_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"payonce/lab/chaos/plan"
)

const errands = 300

func all(p plan.Plan) []plan.Errand {
	var list []plan.Errand
	for client := range p.Clients {
		for n := range errands {
			list = append(list, p.Errand(client, n))
		}
	}
	return list
}

func TestSeedDecidesEverything(t *testing.T) {
	t.Parallel()
	p, other := plan.Plan{Seed: 7, Clients: 3}, plan.Plan{Seed: 8, Clients: 3}
	if d := cmp.Diff(all(p), all(p)); d != "" {
		t.Errorf("the same seed wants other things: %s", d)
	}
	if cmp.Equal(all(p), all(other)) {
		t.Error("another seed wants the same")
	}
	if d := cmp.Diff(p.Blows(time.Minute), p.Blows(time.Minute)); d != "" {
		t.Errorf("the same seed strikes otherwise: %s", d)
	}
	if cmp.Equal(p.Blows(time.Minute), other.Blows(time.Minute)) {
		t.Error("another seed strikes the same")
	}
	if cmp.Diff(p.Mix(), p.Mix()) != "" || cmp.Equal(p.Mix(), other.Mix()) {
		t.Error("the rates are not those of the seed")
	}
}

func TestOthersDoEverythingByTheSeed(t *testing.T) {
	t.Parallel()
	p, other := plan.Plan{Seed: 7, Clients: 3}, plan.Plan{Seed: 8, Clients: 3}
	seen, same := map[plan.DeedKind]int{}, 0
	for n := range errands {
		d := p.Deed(n)
		if d != p.Deed(n) || d.Share <= 0 || d.Share > 1 {
			t.Errorf("deed %d is %+v, and %+v", n, d, p.Deed(n))
		}
		if d == other.Deed(n) {
			same++
		}
		seen[d.Kind]++
	}
	for _, kind := range plan.DeedKinds() {
		if seen[kind] == 0 {
			t.Errorf("nobody does %s", kind)
		}
	}
	if same > 0 {
		t.Errorf("another seed has %d equal deeds", same)
	}
}

// What a client wants does not depend on how many others there are.
func TestErrandIsTheSameAmongMoreClients(t *testing.T) {
	t.Parallel()
	if d := cmp.Diff(plan.Plan{Seed: 7, Clients: 3}.Errand(1, 40),
		plan.Plan{Seed: 7, Clients: 30}.Errand(1, 40)); d != "" {
		t.Error(d)
	}
}

func TestEveryKindOfErrandComesUp(t *testing.T) {
	t.Parallel()
	seen := map[plan.Kind]bool{}
	for _, e := range all(plan.Plan{Seed: 7, Clients: 3}) {
		seen[e.Kind] = true
	}
	for _, kind := range plan.Kinds() {
		if !seen[kind] {
			t.Errorf("nobody wants %s in %d errands", kind, 3*errands)
		}
	}
}

func TestLedgerTellsWhichOrderWasPaid(t *testing.T) {
	t.Parallel()
	p := plan.Plan{Seed: 7, Clients: 3}
	keys := map[int64]string{}
	for _, e := range all(p) {
		if e.Order.Number == 0 {
			continue
		}
		if known, seen := keys[e.Order.Number]; seen && known != e.Key {
			t.Fatalf("order %d is under two keys", e.Order.Number)
		}
		keys[e.Order.Number] = e.Key
		for _, amount := range []int64{e.Order.Amount, e.Order.Amount + 1, e.Other.Amount, e.Other.Amount + 1} {
			if got := plan.NumberOf(amount); got != e.Order.Number {
				t.Fatalf("%d leads to order %d, not %d", amount, got, e.Order.Number)
			}
		}
	}
}

func TestLieIsAnotherIntentUnderTheSameKey(t *testing.T) {
	t.Parallel()
	for _, e := range all(plan.Plan{Seed: 7, Clients: 3}) {
		if e.Kind == plan.Lie && e.Other.Intent() == e.Order.Intent() {
			t.Errorf("%+v is no lie about %+v", e.Other, e.Order)
		}
	}
}

func TestSpellingsOfAnOrderMeanTheSame(t *testing.T) {
	t.Parallel()
	o := plan.Plan{Seed: 7, Clients: 1}.Errand(0, 0).Order
	o.Method, o.Note, o.Channel = "pm_ok", "für \"3\"\nGäste", "téléphone"
	var spellings []string
	for spelling := range 12 {
		body := o.Body(spelling)
		if !slices.Contains(spellings, body) {
			spellings = append(spellings, body)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		delete(got, "paymentMethod")
		want := map[string]any{
			"customerId": o.Customer, "amountCents": float64(o.Amount), "currency": o.Currency,
			"reference":   "order " + strconv.FormatInt(o.Number, 10),
			"description": o.Note, "metadata": map[string]any{"order": strconv.FormatInt(o.Number, 10),
				"channel": o.Channel},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", body, d)
		}
	}
	if len(spellings) < 4 {
		t.Errorf("there are %d spellings only", len(spellings))
	}
}

func TestEachBlowFallsOnceBeforeAnyFallsTwiceAndAllAreOverInTime(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{45 * time.Second, time.Minute, 10 * time.Minute} {
		for seed := range uint64(50) {
			blows := plan.Plan{Seed: seed, Clients: 1}.Blows(length)
			fallen := map[plan.BlowKind]int{}
			for _, b := range blows {
				fallen[b.Kind]++
				if b.At+b.For > length {
					t.Errorf("%s, seed %d: %s ends at %s", length, seed, b.Kind, b.At+b.For)
				}
			}
			for _, kind := range plan.BlowKinds() {
				if fallen[kind] == 0 {
					t.Errorf("%s, seed %d: %s is left out", length, seed, kind)
				}
			}
			if !slices.IsSortedFunc(blows, func(a, b plan.Blow) int { return int(a.At - b.At) }) {
				t.Errorf("%s, seed %d: the schedule is in disorder", length, seed)
			}
		}
	}
}

func TestBlowThatIsLeftOutNeverFalls(t *testing.T) {
	t.Parallel()
	for _, b := range (plan.Plan{Seed: 7, Clients: 1}).Blows(5*time.Minute, plan.CrashPostgres) {
		if b.Kind == plan.CrashPostgres {
			t.Fatal("PostgreSQL is to crash all the same")
		}
	}
}

func TestFaultsOfStripeAreForStripeAlone(t *testing.T) {
	t.Parallel()
	native, stripe := plan.Plan{Seed: 7, Clients: 3}, plan.Plan{Seed: 7, Clients: 3, Stripe: true}
	if native.Mix().Stripe != nil || len(stripe.Mix().Stripe) == 0 {
		t.Errorf("rates: %v, %v", native.Mix().Stripe, stripe.Mix().Stripe)
	}
	for name, rate := range stripe.Calm().Stripe {
		if rate != 0 {
			t.Errorf("%s goes on in the calm", name)
		}
	}
	uses := func(p plan.Plan) map[string]bool {
		used := map[string]bool{}
		for _, e := range all(p) {
			used[e.Order.Method] = true
		}
		return used
	}
	if u := uses(native); u["pm_bank_debit"] || !u["pm_charged_twice"] {
		t.Errorf("native: %v", u)
	}
	if u := uses(stripe); !u["pm_bank_debit"] || u["pm_charged_twice"] {
		t.Errorf("stripe: %v", u)
	}
}

func TestRatesAreOnesThatThePSPTakes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		sum := 0.0
		for name, rate := range (plan.Plan{Seed: seed}).Mix().Rates {
			sum += rate
			if rate <= 0 {
				t.Errorf("seed %d: %s never comes", seed, name)
			}
		}
		if sum >= 0.5 {
			t.Errorf("seed %d: %g of all calls fail", seed, sum)
		}
	}
}

func TestEndpointSlipsInEachWayTwiceAndThenInStormsAlone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		p, met := plan.Plan{Seed: seed}, map[plan.Slip]int{}
		const enough = 1000
		storm := 0
		for n := 1; n < enough; n++ {
			met[p.Slip(n, true)]++
			if p.Slip(n, false) != plan.NoSlip {
				storm++
			}
		}
		for _, slip := range plan.Slips() {
			if met[slip] != 2 {
				t.Errorf("seed %d: %s is met %d times in a calm", seed, slip, met[slip])
			}
		}
		if storm < enough/10 {
			t.Errorf("seed %d: %d slips in a storm", seed, storm)
		}
	}
}
