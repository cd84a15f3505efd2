package nemesis

import (
	"context"
	"slices"
	"time"

	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/pgproxy"
)

// How often a round meets it, while a blow lasts.
const (
	dropShare = 0.12
	cutShare  = 0.12
)

// reads are the rounds whose lost answer loses nothing: they are not counted as acknowledgements.
var reads = []string{"begin", "BEGIN", "select", "SELECT", "ping"}

func (n *Nemesis) crashPostgres(ctx context.Context, _ time.Duration) bool {
	return n.crash(ctx, "postgres", n.o.Site.CrashPostgres)
}

// crash leaves no other blow a server while it is down.
func (n *Nemesis) crash(ctx context.Context, what string, do func(context.Context) error) bool {
	n.postgres.Lock()
	defer n.postgres.Unlock()
	if ctx.Err() != nil {
		return false
	}
	err := do(context.WithoutCancel(ctx))
	n.must(what, err)
	return err == nil
}

// crashPart leaves the server to which processes connect with sessions that are gone, and with transactions of which it
// does not know what has become.
func (n *Nemesis) crashPart(ctx context.Context, target int) bool {
	return n.crash(ctx, "part", func(ctx context.Context) error { return n.o.Site.CrashPart(ctx, target) })
}

// moveLimit bounds a move. It waits for transactions that hold what it needs, at the end.
const (
	moveLimit = 30 * time.Second
	moveTry   = 10 * time.Second
)

// moveTenant takes a tenant to another server. A move that a blow ends leaves the tenant where it was. Every other move
// is spared crashes, so that some come to their end.
func (n *Nemesis) moveTenant(ctx context.Context, target int) bool {
	if target/2%2 == 0 { // the tenant goes by the last bit
		n.postgres.Lock()
		defer n.postgres.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, moveLimit)
	defer cancel()
	tenants := []string{"acme", "globex"}
	for writersWait := target%4 > 1; ; writersWait = !writersWait {
		try, end := context.WithTimeout(ctx, moveTry)
		done, err := n.o.World.MoveTenant(try, tenants[target%len(tenants)], writersWait)
		end()
		if err == nil {
			n.o.Tally.One("tenant", done)
			return true
		}
		n.o.Tally.One("move that failed", err.Error())
		if !program.Wait(ctx, time.Second) {
			return false
		}
	}
}

// endSessions is what a failover looks like to clients: each session is ended in the middle of whatever it is at.
func (n *Nemesis) endSessions(ctx context.Context, _ time.Duration) bool {
	_, err := n.o.World.DB.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`)
	return err == nil
}

// lockTables holds the tables that everything needs, so that each connection of the pools ends up waiting.
func (n *Nemesis) lockTables(ctx context.Context, d time.Duration) bool {
	n.postgres.Lock()
	defer n.postgres.Unlock()
	tx, err := n.o.World.DB.Begin(ctx)
	if err != nil {
		return false
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "LOCK TABLE idempotency_keys, payments IN ACCESS EXCLUSIVE MODE"); err != nil {
		return false
	}
	program.Wait(ctx, d)
	return true
}

// dropAcks has the database do what it is asked, and loses its word.
func (n *Nemesis) dropAcks(ctx context.Context, p *world.Process, d time.Duration) bool {
	p.DB.Choose(func(queries []string) pgproxy.Action {
		if len(queries) == 0 || !n.luck.below(dropShare) {
			return pgproxy.Pass
		}
		if slices.ContainsFunc(queries, func(q string) bool { return !slices.Contains(reads, q) }) {
			n.o.Tally.One("dropped acknowledgement", queries[len(queries)-1])
		}
		return pgproxy.DropAcknowledgement
	})
	program.Wait(ctx, d)
	n.letRoundsPass(p)
	return true
}

// cutRounds loses what is sent to the database.
func (n *Nemesis) cutRounds(ctx context.Context, p *world.Process, d time.Duration) bool {
	p.DB.Choose(func(queries []string) pgproxy.Action {
		if len(queries) == 0 || !n.luck.below(cutShare) {
			return pgproxy.Pass
		}
		n.o.Tally.One("cut round", queries[len(queries)-1])
		return pgproxy.CutBefore
	})
	program.Wait(ctx, d)
	n.letRoundsPass(p)
	return true
}

func (n *Nemesis) storeAway(ctx context.Context, p *world.Process, d time.Duration) bool {
	return n.away(ctx, p.Name, p.DB, d)
}

// proxy is one that can refuse everything for a while.
type proxy interface {
	Down()
	Restore() error
}

func (n *Nemesis) away(ctx context.Context, where string, p proxy, d time.Duration) bool {
	p.Down()
	program.Wait(ctx, d)
	n.must(where, p.Restore())
	return true
}

// ageWebhooks has the retention of processed webhooks pass, which is a week: the reconciler forgets them, and the PSP
// may send them again.
func (n *Nemesis) ageWebhooks(ctx context.Context, _ time.Duration) bool {
	const aged = `UPDATE webhook_events SET processed_at = processed_at - interval '8 days' WHERE processed_at > clock_timestamp() - interval '1 hour'`
	done, err := n.o.World.DB.Exec(ctx, aged)
	if err != nil {
		return false
	}
	n.o.Tally.Add("webhook", "grown old", int(done.RowsAffected()))
	var left int
	const old = `SELECT count(*) FROM webhook_events WHERE processed_at < clock_timestamp() - interval '7 days'`
	for program.Wait(ctx, pruneEvery) {
		if err := n.o.World.DB.QueryRow(ctx, old).Scan(&left); err == nil && left == 0 {
			n.o.Tally.Add("webhook", "pruned", int(done.RowsAffected()))
			return true
		}
	}
	return true
}

// pruneEvery is how often it is looked whether they are gone.
const pruneEvery = 500 * time.Millisecond

// holdObjects keeps the next ids of the PSP's objects on their way into the database, until the leases of their owners
// are over and somebody else may have the keys. Then they land: an owner that comes so late must not store its id.
func (n *Nemesis) holdObjects(ctx context.Context, p *world.Process, d time.Duration) bool {
	coming, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all []*pgproxy.Event
	for range maxHeld {
		held := p.DB.On("RememberObject", pgproxy.HoldBefore)
		defer p.DB.Forget(held)
		all = append(all, held)
	}
	if all[0].Reached(coming) != nil {
		return false
	}
	program.Wait(ctx, d)
	for _, held := range all {
		held.Release()
	}
	landing, done := context.WithTimeout(context.WithoutCancel(ctx), landLimit)
	defer done()
	for _, held := range all {
		if landed, err := held.Landed(landing); err == nil && landed {
			n.o.Tally.One("landed too late", "RememberObject")
		}
	}
	return true
}
