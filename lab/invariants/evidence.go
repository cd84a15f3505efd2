package invariants

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/lab/history"
)

// Evidence is where to look.
type Evidence struct {
	DB      *pgxpool.Pool // straight to the database, as a role that may read everything
	PSP     string        // base URL of the mock PSP itself, no proxy
	History []history.Operation

	// Stripe is where the PSP speaks that dialect, for a world whose tenants are there. Without it, no intent is looked
	// at (I4, I9).
	Stripe Stripe
	// Foreign are the PSP's ids of what other programs have charged in the same accounts.
	Foreign []string
	// Others are the keys under which others have asked a native PSP for refunds of our charges.
	Others []string

	// APIs are base URLs of API processes. Without them, or for tenants without a key in APIKeys, nothing is asked of
	// the API: no fresh replays (I3), no look at other tenants (I5).
	APIs    []string
	APIKeys map[string]string // by tenant

	// Operators are base URLs of the operator's sides, and OperatorKey opens them. Without them, nothing is asked there
	// (I5, I8).
	Operators   []string
	OperatorKey string
	Limited     Limited // API keys that may not do everything

	// Statement has the program reconcile a day, as an operator would; nil: no statement is looked at (I4).
	Statement func(ctx context.Context, day time.Time) (Statement, error)

	// Retention is for how long the programs keep a key. 0: not looked at.
	Retention time.Duration

	// GracePeriod is that of the programs: how long after a key became unknown it may be given back at the earliest. 0:
	// not looked at.
	GracePeriod time.Duration

	Reservations *Reservations // who watched the sends, or nil
	HTTP         *http.Client  // nil: one of its own
	Limit        time.Duration // of the search for an order, for each key; 0: 20 seconds
}

// Violation is a breach of an invariant.
type Violation struct {
	Invariant string // "I1" to "I10"
	Key       string // tenant, operation and key; or the PSP's account and key, or a payment, where there is no key
	Detail    string
}

func (v Violation) String() string { return v.Invariant + " " + v.Key + ": " + v.Detail }

const (
	defaultLimit = 20 * time.Second
	httpTimeout  = 20 * time.Second
	// inFlight bounds the requests that a check makes at once.
	inFlight = 8
)

// world is all that was read.
type world struct {
	books   *books
	ledger  *Ledger
	outside map[string]outsideMove
}

func look(ctx context.Context, e Evidence) (world, error) {
	ledger, err := ReadLedger(ctx, e.HTTP, e.PSP)
	if err != nil {
		return world{}, err
	}
	ledger.withoutForeign(e)
	b, err := readBooks(ctx, e.DB)
	if err != nil {
		return world{}, fmt.Errorf("read the database: %w", err)
	}
	w := world{books: b, ledger: ledger}
	w.outside = w.outsideMoves()
	return w, nil
}

// Check looks for breaches of every invariant. It comes after Quiet; what is still under way it reports as I2. The
// violations are in the order of the invariants, then of the keys. An error says that something could not be looked at.
func Check(ctx context.Context, e Evidence) ([]Violation, error) {
	e, done := e.withClient()
	defer done()
	w, err := look(ctx, e)
	if err != nil {
		return nil, err
	}
	found := slices.Concat(chargedOnce(w), namedOnce(w), unfinished(w), rounds(w), ledgerAgrees(w), totals(w),
		outsideAgrees(w), timelines(w), silent(w), released(w, e.GracePeriod), reserved(w))
	for _, compare := range []func(world, Evidence) []Violation{
		toldWhatIsStored, answersFit, asked, surfaces, kept, denied, refusals, refusedThoughCharged, deadLettersFit,
		holdsFit, foreign,
	} {
		found = append(found, compare(w, e)...)
	}
	for _, v := range history.Check(e.History, cmp.Or(e.Limit, defaultLimit)) {
		found = append(found, Violation{v.Invariant, v.Tenant + " " + v.Route + " " + v.Key, v.Detail})
	}
	for _, ask := range []func(context.Context, Evidence, world) ([]Violation, error){
		replays, shown, lists, keyViews, ops, strangers, sends, intents, statements, permissions,
	} {
		more, err := ask(ctx, e, w)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	if e.Reservations != nil {
		more, err := e.Reservations.Violations(ctx)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	slices.SortStableFunc(found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(len(a.Invariant), len(b.Invariant)), cmp.Compare(a.Invariant, b.Invariant),
			cmp.Compare(a.Key, b.Key))
	})
	return found, nil
}

// withClient is the evidence with an HTTP client, and what closes its connections.
func (e Evidence) withClient() (Evidence, func()) {
	if e.HTTP != nil {
		return e, func() {}
	}
	transport := &http.Transport{MaxIdleConnsPerHost: inFlight}
	e.HTTP = &http.Client{Timeout: httpTimeout, Transport: transport}
	return e, transport.CloseIdleConnections
}
