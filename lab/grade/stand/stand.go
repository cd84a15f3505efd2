// Package stand is what a server stands on while it is graded: a fresh PostgreSQL, a mock PSP between two proxies, and
// the processes of the server. It starts them, stops them in every way, and knows nothing of levels and marks.
//
// A server at a URL runs by itself, with a mock PSP of its own. Then nothing can be stopped or held.
package stand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"payonce/demo/mockpsp"
	"payonce/lab/grade/profile"
	"payonce/lab/invariants"
	"payonce/lab/world"
	"payonce/test/heldport"
	"payonce/test/httpproxy"
)

// Options say what is graded.
type Options struct {
	Profile profile.Profile
	// Target is a program, or the URL of a server that runs.
	Target string
	// PSP is the URL of the mock PSP of a server that runs.
	PSP  string
	Seed uint64
	Dir  string // for logs and data; everybody may have to enter it
	Say  func(string)
	// Arrived sees each call to the PSP.
	Arrived func(httpproxy.Call)
}

// Stand is everything around the server.
type Stand struct {
	Servers []*Server

	options Options
	db      *database // nil for a server at a URL
	psp     *provider
	extra   map[string]string // environment beside the profile's

	turn  atomic.Int64
	mu    sync.Mutex
	ports []*heldport.Port
}

// IsURL reports whether a target is a server that runs.
func IsURL(target string) bool {
	return strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://")
}

// Open starts everything, the server last.
func Open(ctx context.Context, o Options) (_ *Stand, err error) {
	s := &Stand{options: o}
	if IsURL(o.Target) {
		s.Servers = []*Server{{Number: 1, URL: strings.TrimRight(o.Target, "/")}}
		s.psp = &provider{url: strings.TrimRight(o.PSP, "/")}
		if _, err := s.psp.ledger(ctx); err != nil {
			return nil, fmt.Errorf("a server at a URL needs the mock PSP that it uses at PSP: %w", err)
		}
		return s, nil
	}
	program, err := findProgram(o.Target)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	o.Say("starting PostgreSQL and the mock PSP")
	if s.db, err = openDatabase(ctx, o.Dir, o.Say); err != nil {
		return nil, err
	}
	if s.psp, err = openProvider(o.Seed, o.Profile.Webhooks, s.nextAddress, o.Arrived); err != nil {
		return nil, err
	}
	for i := range o.Profile.Instances {
		port, err := heldport.Hold()
		if err != nil {
			return nil, err
		}
		s.ports = append(s.ports, port)
		server := &Server{
			Number: i + 1, URL: "http://" + port.Address, env: func() []string { return s.environment(port.Address) },
			process: &world.Process{
				Name: fmt.Sprintf("server %d", i+1), Address: port.Address, Operator: port.Address, Program: program,
				Log: filepath.Join(o.Dir, fmt.Sprintf("server-%d.log", i+1)), Group: true, Limit: readyLimit,
				Probe: "http://" + port.Address + o.Profile.Ready, Accepts: serves(o.Profile.Ready),
			},
		}
		s.Servers = append(s.Servers, server)
		o.Say(fmt.Sprintf("starting server %d of %d", i+1, o.Profile.Instances))
		if err := server.Start(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// findProgram says what is wrong with a target before anything is started.
func findProgram(target string) (string, error) {
	if target == "" {
		return "", errors.New("TARGET is empty: name a program, or the URL of a server that runs")
	}
	path, err := exec.LookPath(target)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		hint := ""
		if errors.Is(err, os.ErrPermission) {
			hint = "; a script needs chmod +x"
		}
		return "", fmt.Errorf("TARGET cannot be run: %w%s", err, hint)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("TARGET: %w", err)
	}
	return path, nil
}

// environment of a server at an address.
func (s *Stand) environment(address string) []string {
	_, port, _ := strings.Cut(address, ":")
	var keys []string
	for _, t := range s.options.Profile.Tenants {
		keys = append(keys, t.APIKey+"="+t.Name)
	}
	ours := map[string]string{
		"PORT": port, "DATABASE_URL": s.db.url, "PSP_URL": s.psp.front.URL(), "PSP_SECRET": pspSecret,
		"WEBHOOK_SECRET": mockpsp.DemoWebhookSecret, "API_KEYS": strings.Join(keys, ","),
	}
	theirs := map[string]string{}
	maps.Copy(theirs, s.options.Profile.Env)
	s.mu.Lock()
	maps.Copy(theirs, s.extra)
	s.mu.Unlock()
	env := os.Environ()
	for _, name := range []string{"PORT", "DATABASE_URL", "PSP_URL", "PSP_SECRET", "WEBHOOK_SECRET", "API_KEYS"} {
		env = append(env, name+"="+ours[name])
	}
	for name, value := range theirs {
		env = append(env, name+"="+os.Expand(value, func(n string) string { return ours[n] }))
	}
	return env
}

// Next is a server that can take a request, in turns. Number 0 stands for any; another one for that server.
func (s *Stand) Next(number int) *Server {
	if number > 0 && number <= len(s.Servers) && s.Servers[number-1].Serves() {
		return s.Servers[number-1]
	}
	for range s.Servers {
		if server := s.Servers[int(s.turn.Add(1))%len(s.Servers)]; server.Serves() {
			return server
		}
	}
	return nil
}

func (s *Stand) nextAddress() string {
	server := s.Next(0)
	if server == nil {
		return ""
	}
	return strings.TrimPrefix(server.URL, "http://")
}

// PSPURL is where the PSP can be asked for its ledger.
func (s *Stand) PSPURL() string { return s.psp.url }

// Ours reports whether the server was started here, so that it can be stopped.
func (s *Stand) Ours() bool { return s.db != nil }

// UsesDatabase reports whether the server has ever connected to the database that it was given.
func (s *Stand) UsesDatabase() bool { return s.db != nil && s.db.line.Used() }

// CrashDatabase kills the database and starts it again.
func (s *Stand) CrashDatabase(ctx context.Context) error { return s.db.crash(ctx) }

// Hold holds the next charge that fits, before or after the PSP has executed it.
func (s *Stand) Hold(fits func(httpproxy.Call) bool, after bool) *httpproxy.Event {
	action := httpproxy.HoldBefore
	if after {
		action = httpproxy.HoldAfter
	}
	return s.psp.front.OnWhere(Charge, fits, action)
}

// Unhold takes a Hold back that no charge has met, and lets go one that has.
func (s *Stand) Unhold(e *httpproxy.Event) {
	s.psp.front.Forget(e)
	e.Release()
}

// HoldWebhook holds the server's answer to the next webhook that fits: then it has been delivered.
func (s *Stand) HoldWebhook(fits func(httpproxy.Call) bool) *httpproxy.Event {
	return s.psp.hooks.OnWhere("webhook", fits, httpproxy.HoldAfter)
}

// UnholdWebhook takes it back, or lets it go on.
func (s *Stand) UnholdWebhook(e *httpproxy.Event) {
	s.psp.hooks.Forget(e)
	e.Release()
}

// Ledger is what the PSP has really charged, oldest first.
func (s *Stand) Ledger(ctx context.Context) (*invariants.Ledger, error) { return s.psp.ledger(ctx) }

// Act does at a door of the PSP what nobody asks its API for. It returns the id of what was made or changed there.
func (s *Stand) Act(ctx context.Context, door, body string) (id string, err error) {
	return s.psp.act(ctx, door, body)
}

// Disorder says which part of the webhooks go wrong, in each way, and which part are never sent.
func (s *Stand) Disorder(ctx context.Context, wrong, dropped float64) error {
	return s.psp.disorder(ctx, map[string]float64{"duplicate": wrong, "reorder": wrong, "delay": wrong, "forge": wrong,
		"drop": dropped})
}

// Restart starts all servers again, with further settings.
func (s *Stand) Restart(ctx context.Context, extra map[string]string) error {
	s.mu.Lock()
	s.extra = extra
	s.mu.Unlock()
	for _, server := range s.Servers {
		server.Stop()
		if err := server.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

const closeLimit = 20 * time.Second

// Close ends everything. Logs stay.
func (s *Stand) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	for _, server := range s.Servers {
		server.Kill()
	}
	if s.psp != nil {
		s.psp.close()
	}
	for _, port := range s.ports {
		port.Close()
	}
	if s.db != nil {
		return s.db.close(ctx)
	}
	return nil
}
