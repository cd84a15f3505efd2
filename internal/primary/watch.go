package primary

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// keepFor is how long a connection for questions is used. The name of a host may stand for another server by now, as
// the name of a group of standbys does after a failover. A connection stays with the server that it was made to.
const keepFor = 5 * time.Second

// watcher asks one host.
type watcher struct {
	*follower

	host    *host
	config  *pgx.ConnConfig
	conn    *pgx.Conn // nil: a new one is made
	made    time.Time // when conn was made
	trouble string    // why the host could not be asked the last time, or ""
}

// watch asks again and again until the pool is closed. It calls first.Done after the first question.
func (w *watcher) watch(first *sync.WaitGroup) {
	defer func() { w.hangUp(w.ctx) }()
	w.ask()
	first.Done()
	pause := time.NewTicker(askEvery)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
			w.ask()
		case <-w.ctx.Done():
			return
		}
	}
}

// ask asks once.
func (w *watcher) ask() {
	ctx, cancel := context.WithTimeout(w.ctx, askLimit)
	defer cancel()
	timeline, err := w.timeline(ctx)
	if err == nil && timeline > 0 {
		w.learn(w.host, timeline)
	}
	if why := reason(err); why != w.trouble && w.ctx.Err() == nil {
		w.trouble = why
		if why == "" {
			w.log.LogAttrs(w.ctx, slog.LevelInfo, "server can be asked again", w.host.attrs()...)
		} else {
			w.log.LogAttrs(w.ctx, slog.LevelWarn, "server cannot be asked whether it is the primary",
				w.host.attrs(slog.String("why", why))...)
		}
	}
}

// timeline is the timeline of a server that accepts writes, and zero if it does not. The name of a file of the log
// begins with the timeline.
func (w *watcher) timeline(ctx context.Context) (timeline int64, err error) {
	if w.now().Sub(w.made) > keepFor {
		w.hangUp(ctx)
	}
	if w.conn == nil {
		if w.conn, err = pgx.ConnectConfig(ctx, w.config); err != nil {
			return 0, err
		}
		w.made = w.now()
	}
	err = w.conn.QueryRow(ctx, `SELECT CASE current_setting('transaction_read_only')
		WHEN 'off' THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint ELSE 0 END`,
		pgx.QueryExecModeSimpleProtocol).Scan(&timeline)
	// An ERROR leaves the connection as it is. A server whose users may not ask for the timeline need not answer a new
	// connection, and check a password, four times a second.
	if w.conn.IsClosed() {
		w.conn = nil
	}
	return timeline, err
}

func (w *watcher) hangUp(ctx context.Context) {
	if w.conn != nil {
		_ = w.conn.Close(ctx)
		w.conn = nil
	}
}

// reason says why a host could not be asked, without what differs from one question to the next, such as our port.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code + ": " + refused.Message
	}
	if pgconn.Timeout(err) {
		return "no answer in time"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "the host's name cannot be resolved"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not accepted"
	}
	if broken, ok := errors.AsType[*net.OpError](err); ok {
		return broken.Op + ": " + broken.Err.Error()
	}
	return "no connection" // The text of an error may differ from one question to the next.
}
