package stand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/demo/embeddedpg"
)

// database is a fresh PostgreSQL, at a TCP address of loopback that it keeps over its crashes. The server itself
// listens on a Unix socket only, which not every driver of every language can use.
type database struct {
	url      string
	options  embeddedpg.Options
	listener net.Listener
	seen     atomic.Bool // somebody has connected

	mu     sync.Mutex
	server *embeddedpg.Server
	copies sync.WaitGroup
}

const databaseName = "grade"

func openDatabase(ctx context.Context, dir string, say func(string)) (_ *database, err error) {
	d := &database{options: embeddedpg.Options{
		DataDir: filepath.Join(dir, "postgres"), Install: true, Progress: say,
		Settings: map[string]string{"max_connections": "200", "synchronous_commit": "on", "jit": "off"},
	}}
	if d.server, err = embeddedpg.Start(ctx, d.options); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close(context.WithoutCancel(ctx)))
		}
	}()
	conn, err := pgx.Connect(ctx, d.server.URL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+databaseName)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return nil, fmt.Errorf("create the database: %w", err)
	}
	config, err := pgconn.ParseConfig(d.server.URL(databaseName))
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	if d.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listen for the database: %w", err)
	}
	d.url = fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", config.User, d.listener.Addr(), databaseName)
	d.copies.Go(d.accept)
	return d, nil
}

func (d *database) accept() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.seen.Store(true)
		d.copies.Go(func() { d.relay(client) })
	}
}

// relay copies both ways until one side is gone.
func (d *database) relay(client net.Conn) {
	defer client.Close()
	d.mu.Lock()
	url := d.server.URL(databaseName)
	d.mu.Unlock()
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return
	}
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	server, err := (&net.Dialer{}).Dial(network, address)
	if err != nil {
		return // crashed: the client sees a connection that was closed
	}
	defer server.Close()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
}

// crash kills the server and starts it again. It recovers from its log.
func (d *database) crash(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server.Abort()
	server, err := embeddedpg.Start(ctx, d.options)
	if err != nil {
		return fmt.Errorf("start PostgreSQL after its crash: %w", err)
	}
	d.server = server
	return nil
}

func (d *database) close(ctx context.Context) error {
	if d.listener != nil {
		_ = d.listener.Close()
	}
	err := d.server.Stop(ctx)
	d.copies.Wait()
	return errors.Join(err, os.RemoveAll(d.server.DataDir()))
}
