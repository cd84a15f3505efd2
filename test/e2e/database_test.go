package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/config"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// What happens when the database is away, or there and of no use, at each point of a payment. Before the reservation,
// nothing may happen at all; after the PSP was asked, nothing may happen twice.

const storeUnavailable = "idempotency_store_unavailable"

// untouched checks that a request has left no trace: not here, not at the PSP.
func (w *world) untouched(key string) {
	w.t.Helper()
	if n := w.count("SELECT count(*) FROM idempotency_keys WHERE key = $1", key); n != 0 {
		w.t.Fatal("the key is reserved")
	}
	if n := w.pspRequests("acme", key); n != 0 {
		w.t.Fatalf("PSP asked %d times", n)
	}
}

func TestDatabaseDownBeforeTheReservation(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "") // the API keys are known from here on
	key := freshKey()
	proxy.Down()
	r := w.pay(key, "pm_ok")
	r.expect(t, http.StatusServiceUnavailable, storeUnavailable)
	if r.header.Get("Retry-After") == "" || r.member(t, "retryable") != true {
		t.Fatalf("the client is not told to come back: %v %s", r.header, r.body)
	}
	w.untouched(key)
	proxy.Up(t)
	w.chargedOnce(key, key, w.pay(key, "pm_ok"))
}

// More often than it is tried, and every time before the server hears of it.
func TestReservationThatNeverArrivesReservesNothing(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	key := freshKey()
	proxy.OnNext(100, "ReserveKeys", pgproxy.CutBefore)
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	w.untouched(key)
}

// betweenTheTransactions runs do while the PSP is being asked, and gives the reply to the payment.
func betweenTheTransactions(t *testing.T, do func(w *world, proxy *pgproxy.Proxy)) (w *world, key string, r reply) {
	t.Helper()
	gate := newGate()
	w, proxy := setupProxied(t, func(o *options) { o.between = gate.wrap })
	key = freshKey()
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	do(w, proxy)
	gate.open()
	return w, key, <-answer
}

// Every connection of the pool has died, and none of them knows it.
func TestFullPoolOfDeadConnectionsDoesNotLoseTheOutcome(t *testing.T) {
	t.Parallel()
	w, key, r := betweenTheTransactions(t, func(w *world, proxy *pgproxy.Proxy) {
		w.fillPool(proxy)
		proxy.Down()
		proxy.Up(t)
	})
	w.chargedOnce(key, key, r)
}

// fillPool has the API open all its connections.
func (w *world) fillPool(proxy *pgproxy.Proxy) {
	w.t.Helper()
	const connections = 16
	reads := proxy.OnNext(connections, "GetPayment", pgproxy.HoldBefore)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			if _, err := w.try(call{method: "GET", path: "/payments/pay_00000000000000000000000000"}); err != nil {
				w.t.Error(err)
			}
		})
	}
	for range connections {
		reads.Await(w.t)
	}
	reads.Release()
	all.Wait()
}

func TestDatabaseStaysAwayAfterTheCharge(t *testing.T) {
	t.Parallel()
	var proxy *pgproxy.Proxy
	w, key, r := betweenTheTransactions(t, func(_ *world, p *pgproxy.Proxy) {
		proxy = p
		proxy.Down()
	})
	// Charged, and not written: that is an unknown outcome. 503 would say that nothing happened.
	r.expect(t, http.StatusAccepted, "")
	if r.text(t, "status") != "processing" || r.header.Get("Location") == "" {
		t.Fatalf("unexpected answer: %v %s", r.header, r.body)
	}
	proxy.Up(t)
	if k := w.keyRow(key); k.Status != "in_progress" {
		t.Fatalf("key is %+v", k)
	}
	w.do(preferring(paymentOf(key, "pm_ok"), "wait=0")).
		expect(t, http.StatusConflict, "idempotency_key_in_progress")
	w.endLease(key)
	for range 2 {
		w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	}
	if k := w.keyRow(key); k.Status != "unknown" {
		t.Fatalf("key is %+v", k)
	}
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
}

// The reservation is there, but what it stands for cannot be read: not sent, and the lease runs out.
func TestDatabaseGoesAwayWithTheAcknowledgement(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	key := freshKey()
	proxy.On("ReserveKeys", pgproxy.DropAcknowledgement)
	proxy.OnNext(100, "FindKey", pgproxy.CutBefore)
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	if k := w.keyRow(key); k.Status != "in_progress" || w.pspRequests("acme", key) != 0 {
		t.Fatalf("key is %+v, PSP asked %d times", k, w.pspRequests("acme", key))
	}
}

// onlyReads is the server that processes are connected to. Another one that writes does not ask it.
const onlyReads = "read only"

// refusals are states of a server that answers and does not serve. Each is brought about by SQL, and ended by it.
var refusals = map[string]struct{ begin, end []string }{
	// For the second statement of each transaction, when the first has been answered already.
	"disk full": {
		[]string{
			`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`,
			`CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON payments EXECUTE FUNCTION refuse()`,
		},
		[]string{`DROP TRIGGER refuse ON payments`},
	},
	onlyReads: {
		[]string{`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$;
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'payonce'`},
		[]string{`SET default_transaction_read_only = off;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$;
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'payonce'`},
	},
}

func refusableBy(t *testing.T, refusal string) {
	t.Helper()
	if refusal == onlyReads {
		pgtest.NeedsOneServer(t, "the one that only reads must be the one that writes")
	}
}

func TestServerThatDoesNotServeIsAwayForUs(t *testing.T) {
	if testing.Short() {
		t.Skip("long: four systems whose database refuses")
	}
	t.Parallel()
	for name, refusal := range refusals {
		t.Run(name+" at the reservation", func(t *testing.T) {
			t.Parallel()
			refusableBy(t, name)
			w := setup(t)
			w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
			session := w.session()
			session.run(refusal.begin...)
			key := freshKey()
			w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
			session.run(refusal.end...)
			w.untouched(key)
			w.chargedOnce(key, key, w.pay(key, "pm_ok"))
		})
		t.Run(name+" at the completion", func(t *testing.T) {
			t.Parallel()
			refusableBy(t, name)
			gate := newGate()
			w := setup(t, func(o *options) { o.between = gate.wrap })
			key := freshKey()
			answer := w.inBackground(paymentOf(key, "pm_ok"))
			gate.awaitArrival(t)
			session := w.session()
			session.run(refusal.begin...)
			gate.open()
			(<-answer).expect(t, http.StatusAccepted, "")
			session.run(refusal.end...)
			if k := w.keyRow(key); k.Status != "in_progress" || w.pspRequests("acme", key) != 1 {
				t.Fatalf("key is %+v, PSP asked %d times", k, w.pspRequests("acme", key))
			}
		})
	}
}

// session is a session of the test's own, in the way of the API's.
type session struct {
	t    testing.TB
	conn *pgxpool.Conn
}

func (w *world) session() *session {
	w.t.Helper()
	conn, err := w.db.Acquire(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		// Closed rather than given back: it may hold locks and settings.
		_ = conn.Conn().Close(context.Background())
		conn.Release()
	})
	return &session{w.t, conn}
}

func (s *session) run(statements ...string) {
	s.t.Helper()
	for _, sql := range statements {
		pgtest.Exec(s.t, s.conn, sql, pgx.QueryExecModeSimpleProtocol)
	}
}

// blocked finds the API's sessions that wait for a lock, in pg_stat_activity.
func blocked() string {
	return "datname = current_database() AND application_name = 'payonce' AND " + waitsForALock()
}

// awaitBlocked waits until that many of the API's sessions wait for a lock.
func (w *world) awaitBlocked(sessions int) {
	w.t.Helper()
	eventually(w.t, "a wait for the lock", func() bool {
		return w.count("SELECT count(*) FROM pg_stat_activity WHERE "+blocked()) == sessions
	})
}

// patientLocks lets statements wait as long as a test needs.
func patientLocks(c *config.API) { c.DBLockTimeout, c.DBStatementTimeout = patience, patience }

// Writers wait for these locks and readers do not.
const lockKeys = "BEGIN; LOCK TABLE idempotency_keys IN EXCLUSIVE MODE"

const locksOneServer = "LOCK TABLE does not reach a transaction that another server runs"

func lockKey(key string) string {
	return "BEGIN; SELECT 1 FROM idempotency_keys WHERE tenant_id = 'acme' AND operation = 'POST /payments' AND key = '" + key + "' FOR UPDATE"
}

func TestExhaustedPoolIsRefusedBeforeThePSP(t *testing.T) {
	t.Parallel()
	pgtest.NeedsOneServer(t, locksOneServer)
	w := setup(t, func(o *options) {
		o.settings = func(c *config.API) {
			patientLocks(c)
			c.DBMaxConns, c.DBAcquire = 2, 2*time.Second // the first two need their connections within it
		}
	})
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	session := w.session()
	session.run(lockKeys)
	keys := []string{freshKey(), freshKey()}
	first := w.inBackground(paymentOf(keys[0], "pm_ok"))
	second := w.inBackground(paymentOf(keys[1], "pm_ok"))
	w.awaitBlocked(2)

	key := freshKey()
	r := w.pay(key, "pm_ok")
	r.expect(t, http.StatusServiceUnavailable, storeUnavailable)
	if r.header.Get("Retry-After") == "" {
		t.Fatal("no Retry-After")
	}
	w.untouched(key)
	session.run("ROLLBACK")
	w.chargedOnce(keys[0], keys[0], <-first)
	w.chargedOnce(keys[1], keys[1], <-second)
}

func TestLockTimeoutAtTheReservationIsRefusedBeforeThePSP(t *testing.T) {
	t.Parallel()
	pgtest.NeedsOneServer(t, locksOneServer)
	w := setup(t, func(o *options) {
		o.settings = func(c *config.API) { c.DBLockTimeout = 50 * time.Millisecond }
	})
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	session := w.session()
	session.run(lockKeys)
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	session.run("ROLLBACK")
	w.untouched(key)
	w.chargedOnce(key, key, w.pay(key, "pm_ok"))
}

func TestLockTimeoutAtTheCompletionIsTriedAgain(t *testing.T) {
	t.Parallel()
	const lockTimeout = 50 * time.Millisecond
	gate := newGate()
	url := pgtest.NewURL(t)
	setLockTimeout(t, url, lockTimeout)
	w, proxy := setupProxied(t, func(o *options) {
		o.between, o.url = gate.wrap, url
		o.settings = func(c *config.API) { c.DBLockTimeout = lockTimeout }
	})
	key := freshKey()
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	session := w.session()
	session.run(lockKey(key))
	proxy.OnNext(2, "CompleteKeys", pgproxy.HoldBefore).Release() // these two run into the lock
	last := proxy.On("CompleteKeys", pgproxy.HoldBefore)
	gate.open()
	last.Await(t)
	session.run("ROLLBACK")
	last.Release()
	w.chargedOnce(key, key, <-answer)
	if n := w.ambiguousCommits(); n != 0 {
		t.Fatalf("%d ambiguous commits counted: the server has said that it rolled back", n)
	}
}

// A session that is terminated says FATAL, which is no word on the transaction.
func TestTerminatedSessionIsAmbiguous(t *testing.T) {
	t.Parallel()
	terminate := "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " + blocked()
	t.Run("in the reservation", func(t *testing.T) {
		t.Parallel()
		pgtest.NeedsOneServer(t, locksOneServer)
		w := setup(t, func(o *options) { o.settings = patientLocks })
		w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
		session := w.session()
		session.run(lockKeys)
		key := freshKey()
		answer := w.inBackground(paymentOf(key, "pm_ok"))
		w.awaitBlocked(1)
		w.exec(terminate)
		eventually(t, "the count of the ambiguity", func() bool { return w.ambiguousCommits() == 1 })
		session.run("ROLLBACK")
		w.chargedOnce(key, key, <-answer)
	})
	t.Run("in the completion", func(t *testing.T) {
		t.Parallel()
		gate := newGate()
		w := setup(t, func(o *options) { o.between, o.settings = gate.wrap, patientLocks })
		key := freshKey()
		answer := w.inBackground(paymentOf(key, "pm_ok"))
		gate.awaitArrival(t)
		session := w.session()
		session.run(lockKey(key))
		gate.open()
		w.awaitBlocked(1)
		w.exec(terminate)
		eventually(t, "the count of the ambiguity", func() bool { return w.ambiguousCommits() == 1 })
		session.run("ROLLBACK")
		w.chargedOnce(key, key, <-answer)
	})
}

// An owner that was stopped for more than a third of its lease does not know what the others think of it. The time
// counts from the first time that the lease was asked for.
func TestOwnerThatWasPausedDoesNotSend(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second // the retry has a third of it, too, on however busy a machine
	for name, resume := range map[string]func(*pgproxy.Event){
		"after the reservation":        (*pgproxy.Event).Release,
		"before it had to be repeated": (*pgproxy.Event).CutClients,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, proxy := setupProxied(t, func(o *options) {
				o.settings = func(c *config.API) { c.Lease, c.PSPTotal, c.PSPDial = lease, time.Second, time.Second }
			})
			key := freshKey()
			pause := proxy.On("ReserveKeys", pgproxy.HoldAfter)
			answer := w.inBackground(paymentOf(key, "pm_ok"))
			pause.Await(t)
			<-time.After(lease/3 + 10*time.Millisecond) // the passing of time is the event
			resume(pause)
			r := <-answer
			r.expect(t, http.StatusServiceUnavailable, "psp_unavailable")
			if k := w.keyRow(key); k.Status != "failed_retryable" || w.pspRequests("acme", key) != 0 {
				t.Fatalf("key is %+v, PSP asked %d times", k, w.pspRequests("acme", key))
			}
			again := w.pay(key, "pm_ok")
			w.chargedOnce(key, key, again)
			if again.text(t, "paymentId") != r.text(t, "paymentId") || w.keyRow(key).Attempt != 2 {
				t.Fatalf("the retry made another payment, or no attempt of its own: %s, then %s", r.body, again.body)
			}
		})
	}
}

func TestServerKilledBetweenTheTransactionsLosesNothing(t *testing.T) {
	t.Parallel()
	server := pgtest.OwnServer(t, true)
	gate := newGate()
	w := setup(t, func(o *options) {
		o.url = pgtest.Migrate(t, server)
		o.between = gate.wrap
	})
	key := freshKey()
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	server.Crash()
	pgtest.Restart(t, server, true)
	gate.open()
	w.chargedOnce(key, key, <-answer)
}

// Retries of a failed key race for it while the PSP is away. Each is told to come back; none that the key is too old.
func TestRacingRetriesOfAFailedKeyMayAllComeBack(t *testing.T) {
	if testing.Short() {
		t.Skip("long: two hundred retries")
	}
	t.Parallel()
	w := setup(t, func(o *options) {
		o.settings = func(c *config.API) { c.PSPURL, c.PSPBreakerFailures = unreachablePSP, 100_000 }
	})
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, "psp_unavailable")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 12 {
				r, err := w.try(paymentOf(key, "pm_ok"))
				if err != nil {
					t.Error(err)
					return
				}
				if r.status != http.StatusServiceUnavailable && r.status != http.StatusConflict {
					t.Errorf("status %d: %s", r.status, strings.TrimSpace(string(r.body)))
				}
			}
		})
	}
	all.Wait()
}

// The processes of these tests have the rights that they have in earnest; the tests themselves look at everything.
func TestProcessesLogInAsTheirRoles(t *testing.T) {
	t.Parallel()
	w := setupOpen(t)
	w.reconcile()
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	var users []string
	err := w.db.QueryRow(t.Context(), `SELECT array_agg(DISTINCT usename::text ORDER BY usename::text) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND application_name = 'payonce'`).Scan(&users)
	if err != nil || !slices.Equal(users, []string{"payonce_api", "payonce_reconciler"}) {
		t.Fatalf("logged in as %q: %v", users, err)
	}
}

// A process whose schema is older than its binary, or newer by a column less, cannot take payments now. It says so, as
// it does while a table is missing: nothing was charged, and the same key may be sent again.
func TestColumnThatIsNotThereYetIsNoErrorOfOurs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	w.exec("ALTER TABLE tenants DROP COLUMN psp CASCADE")
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, "idempotency_store_unavailable")
	if n := w.pspRequests("acme", key); n != 0 {
		t.Errorf("the PSP was asked %d times", n)
	}
}

// Nobody pays: the process has to find out by itself that the disk is full, and that it is not any more.
func TestReadyzIsNotReadyWhileTheDiskIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a PostgreSQL of its own, and its disk")
	}
	t.Parallel()
	w := setup(t, func(o *options) { o.url = pgtest.Migrate(t, pgtest.OwnServer(t, false)) })
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	empty := w.fillDisk()
	r := w.operator("/readyz")
	if r.expect(t, http.StatusServiceUnavailable, ""); !strings.Contains(string(r.body),
		`"disk":"the database's disk is full; make room there"`) ||
		!strings.Contains(string(r.body), `"database":"ok"`) {
		t.Fatalf("readyz says %s", r.body)
	}
	empty()
	eventually(t, "ready again", func() bool { return w.operator("/readyz").status == http.StatusOK })
}

// fillDisk has each session of the API meet a full disk with the next files that it writes: the server finds /dev/full
// under their names.
func (w *world) fillDisk() (empty func()) {
	w.t.Helper()
	const full, files = "/dev/full", 10
	if _, err := os.Stat(full); err != nil {
		w.t.Skip("no ", full)
	}
	data := pgtest.Value[string](w.t, w.db, "SHOW data_directory")
	sessions := pgtest.Values[int](w.t, w.db,
		"SELECT pid FROM pg_stat_activity WHERE usename = 'payonce_api' AND datname = current_database()")
	if len(sessions) == 0 {
		w.t.Fatal("the API has no session")
	}
	dir := filepath.Join(data, "base", "pgsql_tmp")
	w.serversOwn(data, dir)
	var names []string
	for _, session := range sessions {
		for n := range files {
			name := filepath.Join(dir, fmt.Sprintf("pgsql_tmp%d.%d", session, n))
			if err := os.Symlink(full, name); err != nil {
				w.t.Fatal(err)
			}
			names = append(names, name)
		}
	}
	return func() {
		for _, name := range names {
			if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
				w.t.Fatal(err)
			}
		}
	}
}

// serversOwn makes a directory of the server's, which may run as somebody else.
func (w *world) serversOwn(data, dir string) {
	w.t.Helper()
	owner, err := os.Stat(data)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if is, ok := owner.Sys().(*syscall.Stat_t); ok {
		if err := os.Chown(dir, int(is.Uid), int(is.Gid)); err != nil {
			w.t.Fatal(err)
		}
	}
}
