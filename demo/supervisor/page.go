package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/demo/controls"
	"payonce/demo/mockpsp"
	"payonce/demo/mockpsp/stripe"
	"payonce/demo/windows"
	"payonce/internal/config"
	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/postgres"
)

// demoPage is the path of the page with the buttons, or "" if there is none.
func demoPage(at *listeners) string {
	if addr, ok := at.operator.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		return "/demo/"
	}
	return ""
}

// newControls makes the page with the buttons, and the link that opens it. There is none where others than this machine
// reach the operator's listener: everybody who reaches the page may press its buttons.
func newControls(
	set settings, at *listeners, d *database, stage *windows.Stage, read rowReader, ours *children, log *slog.Logger,
) (page *controls.Controls, link string) {
	if demoPage(at) == "" {
		return nil, ""
	}
	addr := at.operator.Addr()
	_, port, _ := net.SplitHostPort(addr.String())
	c := controls.Config{
		Port: port, PublicURL: set.api.LocalURL(), Tenant: tenant, APIKey: apiKey,
		Account: accountOf(tenant, set.provider()), Tokens: mockpsp.Tokens(),
		ChargeKeys: func(key string) []string { return []string{key} },
		PSPURL:     set.api.PSPURL, PSPPage: config.LocalURL(at.psp.Addr().String()),
		OperatorURL: "http://" + at.apiAddr, OperatorKey: "demo-operator-key", StartToken: rand.Text(),
		Notice:     set.notice(),
		PSPTimeout: set.api.PSPTotal, Late: set.api.PSPLate,
		MaxPause: idempotency.Terms{Lease: set.api.Lease}.MaxPause(), Row: read,
		API:        controls.Control{State: ours.api.State, Kill: ours.api.kill},
		Reconciler: controls.Control{State: ours.reconciler.State, Kill: ours.reconciler.kill},
		Windows:    stage, Log: log, Now: time.Now,
	}
	if set.stripe() {
		c.Provider, c.Tokens = "Stripe", stripe.Tokens()
		c.ChargeKeys = func(key string) []string { return []string{key + ".confirm.1", key + ".confirm.2"} }
	}
	if d.server != nil {
		c.Database = controls.Control{State: d.State, Kill: d.crash}
	}
	c.WithoutNaive = ours.withoutNaive
	if ours.naive != nil {
		c.Naive = &controls.Naive{URL: ours.naive.url, Account: naiveAccount,
			Control: controls.Control{State: ours.naive.State, Kill: ours.naive.kill}}
	}
	page = controls.New(c)
	if stage != nil {
		watchWindows(stage, ours, page)
	}
	return page, "http://" + addr.String() + "/demo/start?token=" + c.StartToken
}

// tenant is whose payments the page sends, with apiKey.
const (
	tenant = "acme"
	apiKey = "demo-acme-key"
)

type rowReader = func(ctx context.Context, key string) (controls.Row, error)

// openRows makes the function that reads the row of a payment's key for the page. It has a connection of its own: it
// must answer while the API is killed. A key that does not exist has the zero row.
func openRows(ctx context.Context, url string) (read rowReader, closed func(), err error) {
	limits := postgres.DefaultLimits()
	limits.MaxConns = 1
	db, err := postgres.Open(ctx, url, limits)
	if err != nil {
		return nil, nil, err
	}
	// Nothing is reserved through this store, so it needs no terms.
	keys := idempotency.New(db, idempotency.Terms{}, time.Now)
	return func(ctx context.Context, key string) (found controls.Row, err error) {
		row, err := keys.Find(ctx, idempotency.StoredRef(tenant, payment.CreateOperation, key))
		if errors.Is(err, idempotency.ErrNoKey) {
			return found, nil
		}
		found.Status = row.Status
		if row.LockedUntil != nil {
			found.LeaseEnd = *row.LockedUntil
		}
		if err == nil && row.Finished != nil {
			found.Finished = *row.Finished
			found.By, err = finisher(ctx, keys, row)
		}
		if err != nil {
			return found, err
		}
		var open deadletters.OnKey
		about := deadletters.About{Tenant: row.Ref.Tenant, Operation: string(row.Ref.Operation),
			Key: row.Ref.Key.String(), Generation: row.Generation}
		err = db.Pipeline(ctx, deadletters.OpenOnKey(deadletters.DeadLetter{About: &about}, &open))
		found.Case = open.Other != nil
		return found, err
	}, db.Close, nil
}

// finisher is who has brought the key into its status.
func finisher(ctx context.Context, keys *idempotency.Keys, row idempotency.KeyRow) (actor string, err error) {
	written, err := keys.Events(ctx, row.Ref)
	for _, e := range row.Timeline(written) {
		if e.To == row.Status && e.From != e.To {
			actor = e.Actor
		}
	}
	return actor, err
}

// openWindows puts proxies around the two children, or gives nil. There are none without the page, whose buttons they
// are for, and none before a server that is not ours: it may ask for encryption, which the proxy does not speak.
func openWindows(set settings, at *listeners, d *database) (*windows.Stage, error) {
	if demoPage(at) == "" || d.server == nil {
		return nil, nil
	}
	return windows.Open(windows.Config{
		DatabaseURLs: map[windows.Process]string{
			windows.API: set.api.DatabaseURL, windows.Reconciler: set.reconciler.DatabaseURL,
		},
		PSPAddress: at.spoken().Addr().String(), Dialect: set.dialect(), Dir: d.dir,
		Limit: set.hold(), PSPTimeout: set.api.PSPTotal, Now: time.Now,
		Lease: leaseReader(d.url), EndLease: leaseMover(d.url),
	})
}

// leaseReader reads the lease of a key of the page.
func leaseReader(url string) func(ctx context.Context, key string) (windows.Lease, error) {
	return func(ctx context.Context, key string) (found windows.Lease, err error) {
		err = onDatabase(ctx, url, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT lease_id::text, locked_until FROM idempotency_keys
				WHERE tenant_id = $1 AND operation = $2 AND key = $3 AND status = 'in_progress'`,
				tenant, payment.CreateOperation, key).Scan(&found.ID, &found.End)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return found, err
	}
}

// leaseMover moves the end of the lease of a key of the page. The guard of the table refuses that. So the owner of the
// server does it, without triggers. An UPDATE that nobody waits for any more must not come late.
func leaseMover(url string) func(ctx context.Context, key string, of windows.Lease) error {
	return func(ctx context.Context, key string, of windows.Lease) error {
		return onDatabase(ctx, url, func(conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx,
				"SET session_replication_role = replica; SET statement_timeout = '2s'"); err != nil {
				return fmt.Errorf("pass the guard: %w", err)
			}
			_, err := conn.Exec(ctx, `UPDATE idempotency_keys SET locked_until = $1
				WHERE tenant_id = $2 AND operation = $3 AND key = $4 AND status = 'in_progress' AND lease_id::text = $5`,
				of.End, tenant, payment.CreateOperation, key, of.ID)
			return err
		})
	}
}

// watchWindows makes the children the processes whose payments are stopped.
func watchWindows(stage *windows.Stage, ours *children, page *controls.Controls) {
	handles := map[windows.Process]windows.Handle{}
	for who, c := range map[windows.Process]*child{windows.API: ours.api, windows.Reconciler: ours.reconciler} {
		handles[who] = windows.Handle{
			Kill:   c.kill,
			Pause:  func() error { return c.signal(syscall.SIGSTOP) },
			Resume: func() error { return c.signal(syscall.SIGCONT) },
		}
		c.changed = func() {
			if !c.State().Serves {
				stage.Ended(who)
			}
		}
	}
	stage.Attach(handles, page.Note)
}
