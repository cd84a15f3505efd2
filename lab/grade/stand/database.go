package stand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/lab/world"
)

// database is a fresh PostgreSQL, at a TCP address of loopback that it keeps over its crashes. The server itself
// listens on a Unix socket only, which not every driver of every language can use.
type database struct {
	url     string
	options embeddedpg.Options
	line    *world.Line
	server  *embeddedpg.Server
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
	if d.line, err = world.OpenLine(d.server.URL(databaseName)); err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(d.server.URL(databaseName))
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	host, port := d.line.Address()
	d.url = fmt.Sprintf("postgres://%s@%s:%s/%s?sslmode=disable", config.User, host, port, databaseName)
	return d, nil
}

// crash kills the server and starts it again. It recovers from its log.
func (d *database) crash(ctx context.Context) error {
	d.server.Abort()
	server, err := embeddedpg.Start(ctx, d.options)
	if err != nil {
		return fmt.Errorf("start PostgreSQL after its crash: %w", err)
	}
	d.server = server
	return nil
}

func (d *database) close(ctx context.Context) error {
	if d.line != nil {
		d.line.Close()
	}
	err := d.server.Stop(ctx)
	return errors.Join(err, os.RemoveAll(d.server.DataDir()))
}
