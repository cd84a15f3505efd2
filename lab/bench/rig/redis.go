package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// redisProgram is Debian's.
const redisProgram = "redis-server"

// Redis is a server without persistence on a socket of its own.
type Redis struct {
	*Process

	Version string
}

// HasRedis reports whether there is one to be started.
func HasRedis() bool {
	_, err := exec.LookPath(redisProgram)
	return err == nil
}

// StartRedis starts one. It forgets whatever it likes when a gigabyte is full, which a read-through can bear.
func (r *Rig) StartRedis(ctx context.Context) (*Redis, error) {
	program, err := exec.LookPath(redisProgram)
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(r.dir, redisProgram+"-*.log")
	if err != nil {
		return nil, err
	}
	socket := r.Path("redis.sock")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, //nolint:noctx // ended by Stop
		"--save", "", "--appendonly", "no", "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru", "--dir", r.dir,
		"--daemonize", "no")
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", redisProgram, err)
	}
	p := &Redis{Process: &Process{PID: cmd.Process.Pid, Address: socket, cmd: cmd, log: log, done: make(chan struct{})}}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	if err := p.awaitInfo(ctx); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w\n%s", redisProgram, err, p.lastWords())
	}
	p.Ready = time.Since(began)
	return p, nil
}

// awaitInfo asks again and again until it is answered.
func (p *Redis) awaitInfo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if info, err := p.info(ctx); err == nil {
			p.Version = info["redis_version"]
			return nil
		}
		select {
		case <-p.done:
			return errors.New("ended at once")
		case <-ctx.Done():
			return errors.New("is not ready in time")
		case <-tick.C:
		}
	}
}

// RedisCounters is what the server has counted since it began.
type RedisCounters struct {
	Hits, Misses, Keys int64
	Memory             int64 // bytes
}

// Counters reads them.
func (p *Redis) Counters(ctx context.Context) (RedisCounters, error) {
	info, err := p.info(ctx)
	if err != nil {
		return RedisCounters{}, fmt.Errorf("ask Redis for its counters: %w", err)
	}
	var c RedisCounters
	var problems []error
	for name, to := range map[string]*int64{"keyspace_hits": &c.Hits, "keyspace_misses": &c.Misses,
		"used_memory": &c.Memory} {
		*to, err = strconv.ParseInt(info[name], 10, 64)
		problems = append(problems, err)
	}
	// db0:keys=10000,expires=10000,avg_ttl=…; no such line while there are none
	if keys, found := strings.CutPrefix(info["db0"], "keys="); found {
		keys, _, _ = strings.Cut(keys, ",")
		c.Keys, err = strconv.ParseInt(keys, 10, 64)
		problems = append(problems, err)
	}
	return c, errors.Join(problems...)
}

// info is Redis's INFO: lines of name:value.
func (p *Redis) info(ctx context.Context) (map[string]string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.Address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(readyLimit)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "INFO\r\n"); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	head, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	length, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "$")))
	if err != nil || length < 0 {
		return nil, fmt.Errorf("answers %q", strings.TrimSpace(head))
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	return info, nil
}
