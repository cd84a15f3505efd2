// Package invariants holds a run of the whole system against I1 to I11 of docs/correctness.md, from outside: the
// database as it is stored, the PSP's own ledger and the calls that it has counted, and what the clients have heard
// (package history). It never asks the code under test what is right, except for the list of legal edges and the
// spelling of ids.
//
//	I1  a key and its generation name one payment or refund; at most one successful charge for each key and each
//	    payment, the same of refunds; refunds together never exceed their charge
//	I2  nothing is under way any more: what Quiet waits for; and no key goes round between unknown and
//	    failed_retryable without end
//	I3  what a client was told is what is stored, member by member and header by header, which is what the payment
//	    or refund says, and what a fresh replay, a GET, each list and the view of its key say; a key is kept for its
//	    retention, and its clients know until when; each problem is that of the catalogue; the histories have an
//	    order (history.Check)
//	I4  what was asked for is what there is, all of it; our payments and refunds and the PSP's ledger say the same,
//	    both ways, and a settlement statement tells exactly the breaks between the two; a payment's totals are those
//	    of its refunds; what is left of a payment can be refunded
//	I5  another tenant's payment or key looks like one that does not exist, is in no list, and cannot be refunded;
//	    an API key may do what its scopes say, and nothing once it has ended (Revoked: nor once it is revoked)
//	I6  the PSP was sent no more requests for a key than the key has had attempts, but for those that were given
//	    back as never sent; and money has not moved while each request with the key was told that it has charged
//	    nothing
//	I7  who hears 422 (history.Check), and of requests that differ only one gets the answer when they are sent again
//	I8  each timeline is a chain of legal edges, from the reservation to the row as it stands; a key and what it
//	    stands for agree; who completed a key without a line had the PSP's answer; and who gave a key back had a
//	    proof; an operator is shown each dead letter, its audit trail and the summary as they are, and a dead letter
//	    says what is so of its payment, its key and the PSP's record; a key's row says what its open dead letters
//	    hold
//	I9  whatever the PSP has, or was sent, has its key and its payment or refund here; when it was sent, it had them
//	    already, and they are what was sent (Reservations)
//	I10 what a payment shows as returned and as disputed is what the PSP has, each record and in sum, also of what
//	    others have asked for and of money that came back, or a dead letter says why not; the list of its refunds has
//	    each of them once; and no refund of ours was begun beyond what was known to be left
//	I11 each outcome was told at least once to each enabled endpoint of its tenant, and to who has followed the feed;
//	    nothing was told that is not so; and the event with the greatest version of a payment says what the payment is
//
// A difference between the ledger and us is excused by a dead letter, open or resolved, but only while the payment or
// refund has not come to its end, only by a dead letter of a kind that such a difference is given to, and about the
// very payment or refund, or the very record of the PSP's. Who has told a client the end of it had the PSP's word, and
// the mock PSP never takes one back: then no dead letter excuses anything, but for a wrong amount that the PSP has
// acted out and an operator has called executed. Nothing excuses a second charge.
//
// What the PSP does of its own accord (see Errs) is excused by two things together, in I1, I4 and I9: the fault of the
// very entry, and a dead letter that holds or names the very record. Without the dead letter it is a breach, whatever
// other dead letters there are.
//
// Everything is read once, in one snapshot, and compared in memory: a run has thousands of keys, not millions. What is
// being written meanwhile would look like a breach, so Quiet comes first. Keys that end during a run are judged if the
// database has kept what ended (Archive), and if nothing expires any more by then: a replay would begin the next life
// of its key.
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
	"payonce/lab/merchant"
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

	// Merchants are the tenants that want events, with what they have heard. Without them, I11 is not looked at.
	Merchants []merchant.Heard

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
	Invariant string // "I1" to "I11"
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
		replays, shown, lists, refundLists, keyViews, ops, strangers, sends, intents, statements, permissions,
		merchantsTold,
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

// feed reads all of a tenant's feed.
func (e Evidence) feed(ctx context.Context, tenant string) (all []merchant.Notice, wrong string, err error) {
	for after := ""; ; {
		r, err := e.get(ctx, fmt.Sprintf("%s/events?limit=%d%s", base(e.APIs[0]), pageSize, after), tenant)
		if err != nil {
			return nil, "", err
		}
		var page page
		if r.status != http.StatusOK || !page.read(r.body) {
			return nil, fmt.Sprintf("its feed is answered %d %s", r.status, r.body), nil
		}
		for _, raw := range page.Data {
			n, err := merchant.ReadNotice(raw)
			if err != nil {
				return nil, err.Error(), nil //nolint:nilerr // it is a violation that was found
			}
			all = append(all, n)
		}
		if !page.HasMore {
			return all, "", nil
		}
		after = "&after=" + page.NextCursor
	}
}
