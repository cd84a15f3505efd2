package rig

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// RoundTrips stands between a program and PostgreSQL and counts how often the program waits for an answer: at each Sync
// and at each simple Query ("Frontend/Backend Protocol" in PostgreSQL's manual).
type RoundTrips struct {
	listener          net.Listener
	network, upstream string
	dir, url          string
	count             atomic.Int64
}

// CountRoundTrips begins to forward connections to the server of realURL.
func CountRoundTrips(ctx context.Context, realURL string) (*RoundTrips, error) {
	config, err := pgconn.ParseConfig(realURL)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "payonce-count-")
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		return nil, fmt.Errorf("listen before PostgreSQL: %w", err)
	}
	r := &RoundTrips{listener: l, dir: dir}
	r.network, r.upstream = pgconn.NetworkAddress(config.Host, config.Port)
	r.url = (&url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password), Path: "/" + config.Database,
		RawQuery: url.Values{"host": {dir}, "port": {"5432"}, "sslmode": {"disable"}}.Encode(),
	}).String()
	go r.accept()
	return r, nil
}

// URL leads through the counter.
func (r *RoundTrips) URL() string { return r.url }

// Count is how many there were so far.
func (r *RoundTrips) Count() int64 { return r.count.Load() }

// Close refuses new connections. Those that there are go on until their program ends.
func (r *RoundTrips) Close() {
	_ = r.listener.Close()
	_ = os.RemoveAll(r.dir)
}

func (r *RoundTrips) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.forward(client)
	}
}

func (r *RoundTrips) forward(client net.Conn) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(context.Background(), r.network, r.upstream)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	// The start-up message has no type. Its length comes first, as in all others behind their type.
	if copyMessage(server, client, nil) != nil {
		return
	}
	var kind [1]byte
	for {
		if _, err := io.ReadFull(client, kind[:]); err != nil {
			return
		}
		if kind[0] == 'S' || kind[0] == 'Q' {
			r.count.Add(1)
		}
		if copyMessage(server, client, kind[:]) != nil {
			return
		}
	}
}

// copyMessage passes on one message, behind what has been read of it.
func copyMessage(to io.Writer, from io.Reader, read []byte) error {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return err
	}
	const own = 4 // the length counts itself
	size := int(binary.BigEndian.Uint32(length[:]))
	if size < own {
		return fmt.Errorf("message of %d bytes", size)
	}
	message := make([]byte, len(read)+size)
	copy(message, read)
	copy(message[len(read):], length[:])
	if _, err := io.ReadFull(from, message[len(read)+own:]); err != nil {
		return err
	}
	_, err := to.Write(message)
	return err
}
