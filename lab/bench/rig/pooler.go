package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"payonce/test/heldport"
)

// ErrNoPooler says that PgBouncer is not installed.
var ErrNoPooler = errors.New("PgBouncer is not installed")

// Pooler starts PgBouncer in transaction mode before the database, as docs/pooler.md says, and returns the URL that
// leads through it. The timeouts are set as each connection to the server begins: set on the database, they would
// outlast the pooler.
func (d *Database) Pooler(ctx context.Context) (*Process, string, error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return nil, "", ErrNoPooler
		}
	}
	port, err := heldport.Hold()
	if err != nil {
		return nil, "", err
	}
	defer port.Close() // PgBouncer listens on it by then
	address := port.Address
	u, err := url.Parse(d.URL)
	if err != nil {
		return nil, "", err
	}
	path := d.rig.Path("pgbouncer.ini")
	if err := os.WriteFile(path, poolerSettings(u, address), 0o644); err != nil {
		return nil, "", err
	}
	p, err := d.rig.startPooler(ctx, program, path, address, u.Query().Get("host"))
	if err != nil {
		return nil, "", err
	}
	through := url.URL{Scheme: "postgres", User: url.User(u.User.Username()), Host: address, Path: u.Path,
		RawQuery: "sslmode=disable"}
	return p, through.String(), nil
}

func poolerSettings(database *url.URL, address string) []byte {
	host, port, _ := net.SplitHostPort(address) // it comes from a listener
	const timeouts = "SET statement_timeout = 5000; SET lock_timeout = 2000; SET idle_in_transaction_session_timeout = 10000"
	return fmt.Appendf(nil, `[databases]
%s = host=%s port=%s user=%s connect_query='%s'
[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 300
`, strings.TrimPrefix(database.Path, "/"), database.Query().Get("host"), database.Query().Get("port"), database.User.Username(), timeouts, host, port)
}

// startPooler runs PgBouncer as the account that PostgreSQL runs as: it refuses to be root.
func (r *Rig) startPooler(ctx context.Context, program, settings, address, socketDir string) (*Process, error) {
	owner, err := os.Stat(socketDir)
	if err != nil {
		return nil, fmt.Errorf("find PostgreSQL's account: %w", err)
	}
	log, err := os.CreateTemp(r.dir, "pgbouncer-*.log")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, settings) //nolint:noctx // it is ended in good order, by Stop
	if stat, ok := owner.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}}
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	p := &Process{PID: cmd.Process.Pid, Address: address, cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	if err := p.awaitListening(ctx); err != nil {
		p.Stop()
		return nil, fmt.Errorf("PgBouncer: %w\n%s", err, p.lastWords())
	}
	return p, nil
}

// awaitListening asks again and again: from outside there is no event to wait for.
func (p *Process) awaitListening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Address); err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			return errors.New("ended at once")
		case <-ctx.Done():
			return errors.New("does not listen in time")
		case <-tick.C:
		}
	}
}
