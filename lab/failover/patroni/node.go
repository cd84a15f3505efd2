package patroni

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"payonce/lab/program"
	"payonce/lab/world"
)

// askLimit bounds a question to Patroni, and a switchover, which it answers at the end.
const askLimit = 30 * time.Second

// node is a Patroni and its PostgreSQL.
type node struct {
	*world.Process // Patroni

	name     string
	database string // host:port of PostgreSQL
	data     string // its directory
	paused   bool
}

// Switchover has Patroni make another node the primary.
func (c *Cluster) Switchover(ctx context.Context, leader int) error {
	n := c.nodes[leader]
	return n.ask(ctx, http.MethodPost, "switchover", map[string]string{"leader": n.name})
}

// KillPostgres kills the server of a node. Its Patroni lives.
func (c *Cluster) KillPostgres(i int) {
	if servers := c.nodes[i].servers(); len(servers) > 0 {
		signal(servers[:1], syscall.SIGKILL)
	}
}

// KillManager kills Patroni. Its server lives, and nobody fences it.
func (c *Cluster) KillManager(i int) { c.nodes[i].Kill() }

// KillNode kills both, as a machine does that loses its power.
func (c *Cluster) KillNode(i int) {
	servers := c.nodes[i].servers()
	c.nodes[i].Kill()
	signal(servers, syscall.SIGKILL)
}

// Pause stops both: they take connections and answer nothing.
func (c *Cluster) Pause(i int) {
	n := c.nodes[i]
	n.paused = true
	n.Pause()
	signal(n.servers(), syscall.SIGSTOP)
}

// PauseStore stops etcd for a time.
func (c *Cluster) PauseStore(ctx context.Context, limit time.Duration) {
	c.etcd.Pause()
	defer c.etcd.Resume()
	program.Wait(ctx, limit)
}

// servers are the processes of the PostgreSQL server, the postmaster first; none if it does not run.
func (n *node) servers() []int {
	raw, err := os.ReadFile(filepath.Join(n.data, "postmaster.pid"))
	if err != nil {
		return nil
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	postmaster, err := strconv.Atoi(line)
	if err != nil || cwd(postmaster) != n.data { // The file may be of one that was killed, and its id another's by now.
		return nil
	}
	pids := []int{postmaster}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(stat), ") ") // behind the name: the state, and the parent
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == line {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// cwd is the working directory of a process, which of a postmaster is that of its data.
func cwd(pid int) string {
	dir, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	return dir
}

func signal(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// ask sends a request to a node's Patroni. An answer other than 200 is an error.
func (n *node) ask(ctx context.Context, method, path string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.Address+"/"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: Patroni answers %d", path, res.StatusCode)
	}
	return nil
}
