// Package patroni runs three nodes of Patroni and one etcd, as processes on loopback and without installing anything.
//
// It owns their settings, what can happen to a node, and the way back to a cluster in good order. It refuses to know
// what is in the databases and who uses them. Patroni alone decides who is promoted.
package patroni

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/heldport"
)

// size is how many nodes there are: one primary, one standby that each commit waits for, and one to take its place.
const size = 3

const (
	// askEvery is the pause between two looks.
	askEvery = 100 * time.Millisecond
	// promotionEvery is the pause between two questions whether a standby was promoted.
	promotionEvery = 10 * time.Millisecond
)

// Settings are those that the promise of docs/failover.md needs. The rest are Patroni's own.
func Settings() map[string]any {
	return map[string]any{
		"ttl": 30, "loop_wait": 10, "retry_timeout": 10,
		"synchronous_mode": true, "synchronous_mode_strict": true, "failsafe_mode": true,
	}
}

// Cluster is three nodes and one etcd.
type Cluster struct {
	dir   string
	logs  string
	tools tools
	etcd  *world.Process
	nodes []*node
	ports []*heldport.Port
}

// Start starts a cluster in dir, and returns when it is in good order. more replaces Settings.
func Start(ctx context.Context, dir, logs string, more map[string]any) (_ *Cluster, err error) {
	c := &Cluster{dir: dir, logs: logs}
	if c.tools, err = find(ctx, dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if err := c.startEtcd(ctx); err != nil {
		return nil, err
	}
	settings := Settings()
	maps.Copy(settings, more)
	for i := range size {
		if err := c.addNode(i, settings); err != nil {
			return nil, err
		}
	}
	// The first one makes the database, and the others copy it.
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	if err := c.nodes[0].Start(ctx); err != nil {
		return nil, err
	}
	if err := world.Until(ctx, askEvery, func() (bool, error) { return c.is(ctx, 0, "primary"), nil }); err != nil {
		return nil, fmt.Errorf("await the first primary: %w", err)
	}
	return c, c.Heal(ctx)
}

func (c *Cluster) address() (string, error) {
	port, err := heldport.Hold()
	if err != nil {
		return "", err
	}
	c.ports = append(c.ports, port)
	return port.Address, nil
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	clients, err := c.address()
	if err != nil {
		return err
	}
	peers, err := c.address()
	if err != nil {
		return err
	}
	data, err := c.own("etcd")
	if err != nil {
		return err
	}
	c.etcd = &world.Process{
		Name: "etcd", Address: clients, Operator: clients, Log: filepath.Join(c.logs, "etcd.log"),
		Env: c.tools.environment(), Probe: "http://" + clients + "/health",
	}
	clients, peers = "http://"+clients, "http://"+peers
	c.etcd.Program, c.etcd.Args = c.tools.command(c.tools.etcd,
		"--name", "e", "--data-dir", filepath.Join(data, "data"), "--initial-cluster", "e="+peers,
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers)
	return c.etcd.Start(ctx)
}

// own is a folder of the servers' account.
func (c *Cluster) own(name string) (string, error) {
	dir := filepath.Join(c.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil || c.tools.account == "" {
		return dir, err
	}
	return dir, said(exec.Command("chown", c.tools.account, dir)) //nolint:noctx // takes a moment
}

func (c *Cluster) addNode(i int, settings map[string]any) error {
	name := fmt.Sprintf("n%d", i+1)
	dir, err := c.own(name)
	if err != nil {
		return err
	}
	api, err := c.address()
	if err != nil {
		return err
	}
	database, err := c.address()
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	if _, err := c.own(filepath.Join(name, "data.run")); err != nil {
		return err
	}
	dcs, err := json.Marshal(settings) // which is YAML, too
	if err != nil {
		return err
	}
	var config bytes.Buffer
	if err := nodeFile.Execute(&config, map[string]string{
		"Name": name, "API": api, "Database": database, "Etcd": c.etcd.Address, "Settings": string(dcs),
		"Programs": c.tools.postgres, "Data": data,
	}); err != nil {
		return err
	}
	file := filepath.Join(c.dir, name+".yml")
	if err := os.WriteFile(file, config.Bytes(), 0o644); err != nil {
		return err
	}
	n := &node{name: name, database: database, data: data, Process: &world.Process{
		Name: name, Address: api, Operator: api, Log: filepath.Join(c.logs, name+".log"), Env: c.tools.environment(),
		Probe: "http://" + api + "/liveness",
	}}
	n.Program, n.Args = c.tools.command(python, "-m", "patroni", file)
	c.nodes = append(c.nodes, n)
	return nil
}

//go:embed node.yml
var nodeText string

//nolint:gochecknoglobals // a constant that Go cannot write
var nodeFile = template.Must(template.New("node.yml").Parse(nodeText))

const superuser = "payonce"

// Nodes is how many there are.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// URL is the connection string of a database, which names the nodes in this order.
func (c *Cluster) URL(role, database string, order ...int) string {
	var hosts, ports []string
	for _, i := range order {
		host, port, _ := net.SplitHostPort(c.nodes[i].database)
		hosts, ports = append(hosts, host), append(ports, port)
	}
	q := url.Values{"host": {strings.Join(hosts, ",")}, "port": {strings.Join(ports, ",")}, "sslmode": {"disable"}}
	if len(order) > 1 {
		q.Set("target_session_attrs", "read-write")
	}
	return "postgres://" + role + "@/" + database + "?" + q.Encode()
}

// AwaitPromotion returns true when a node that was a standby takes writes, and false when ctx ends.
func (c *Cluster) AwaitPromotion(ctx context.Context, i int) (promoted bool) {
	standby, was := false, false
	for ctx.Err() == nil {
		conn, err := pgx.Connect(ctx, c.URL(superuser, "postgres", i))
		for err == nil && !promoted && program.Wait(ctx, promotionEvery) {
			if err = conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err == nil {
				promoted, was = was && !standby, standby
			}
		}
		if conn != nil {
			_ = conn.Close(ctx)
		}
		if promoted || !program.Wait(ctx, askEvery) {
			return promoted
		}
	}
	return false
}

// AwaitCommit returns when a node has acknowledged a commit. With synchronous_mode_strict, a new primary acknowledges
// none before a standby follows it.
func (c *Cluster) AwaitCommit(ctx context.Context, i int) error {
	conn, err := pgx.Connect(ctx, c.URL(superuser, "postgres", i))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'lab', '')")
	return errors.Join(err, conn.Close(ctx))
}

// Leader is the node that Patroni calls the primary.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	for i := range c.nodes {
		if c.is(ctx, i, "primary") {
			return i, nil
		}
	}
	return 0, errors.New("no node is the primary")
}

// is asks a node's Patroni by one of its health checks.
func (c *Cluster) is(ctx context.Context, i int, check string) bool {
	return c.nodes[i].ask(ctx, http.MethodGet, check, nil) == nil
}

// Close ends everything. Logs stay.
func (c *Cluster) Close() {
	for _, n := range c.nodes {
		n.Kill()
		signal(n.servers(), syscall.SIGKILL)
	}
	if c.etcd != nil {
		c.etcd.Kill()
	}
	for _, port := range c.ports {
		port.Close()
	}
}
