package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/program"
)

// caller is a script that pays by one client.
type caller struct {
	name     string
	script   string // its folder, which has what is common to its language, and its name there
	settings bool   // there is something that its user should set
	set      bool   // which is done, and not left as it comes
	version  string // of the client, when it was asked
	dir      string // where it was installed
}

var callers = []caller{
	{name: "fetch of Node", script: "node/fetch"},
	{name: "axios", script: "node/axios"},
	{name: "axios-retry", script: "node/axios-retry", settings: true},
	{name: "got, POST allowed", script: "node/got", settings: true},
	{name: "ky, POST allowed", script: "node/ky", settings: true},
	{name: "undici's RetryAgent, POST allowed", script: "node/undici", settings: true},
	{name: "superagent, 3 retries", script: "node/superagent"},
	{name: "ofetch, 3 retries", script: "node/ofetch", settings: true},
	{name: "p-retry around fetch", script: "node/p-retry", settings: true},
	{name: "net/http of Go", script: "golang/nethttp"},
	{name: "go-retryablehttp", script: "golang/retryablehttp", settings: true},
	{name: "resty, 3 retries", script: "golang/resty", settings: true},
	{name: "heimdall, 3 retries", script: "golang/heimdall"},
	{name: "failsafe-go", script: "golang/failsafe", settings: true},
	{name: "curl", script: "others/curl.sh"},
	{name: "curl with `--retry 3 --retry-all-errors`", script: "others/curl-retry.sh", settings: true},
	{name: "wget", script: "others/wget.sh", settings: true},
	{name: "http.client of Python", script: "python/py_httpclient"},
	{name: "requests", script: "python/py_requests"},
	{name: "requests with Retry, POST allowed", script: "python/py_retry", settings: true},
	{name: "httpx, 3 retries", script: "python/py_httpx"},
	{name: "httplib2", script: "python/py_httplib2"},
	{name: "HttpURLConnection of Java", script: "jvm/urlconnection"},
	{name: "java.net.http", script: "jvm/newclient"},
	{name: "curl of PHP", script: "others/curl.php"},
	{name: "Guzzle with its retry", script: "others/guzzle.php", settings: true},
	{name: "Net::HTTP of Ruby", script: "others/nethttp.rb"},
	{name: "Faraday with its retry, POST allowed", script: "others/faraday.rb", settings: true},
	{name: "HTTP::Tiny of Perl", script: "others/tiny.pl"},
	{name: "LWP of Perl", script: "others/lwp.pl"},
}

// systemPython is the one that Debian's packages are for; another one may come first on the path.
const systemPython = "/usr/bin/python3"

// command starts the caller's program in its folder.
func (c caller) command(url string) *exec.Cmd {
	folder, script := path.Split(c.script)
	args := map[string][]string{
		"node/": {"node", "pay.mjs"}, "golang/": {"./callers"}, "python/": {systemPython, "pay.py"},
		"jvm/": {"java", "-cp", ".", "Pay"}, "others/": {map[string]string{".sh": "bash", ".php": "php", ".rb": "ruby",
			".pl": "perl"}[path.Ext(script)]},
	}[folder]
	cmd := exec.Command(args[0], append(args[1:], script)...) //nolint:noctx // it ends with its input, or is killed
	cmd.Dir = filepath.Join(c.dir, folder)
	// What a killed program leaves behind goes with its folder.
	cmd.Env = append(cmd.Environ(), "URL="+url, "http_proxy=", "HTTP_PROXY=", "TMPDIR="+cmd.Dir)
	if c.set {
		cmd.Env = append(cmd.Env, "SET=1")
	}
	cmd.SysProcAttr = program.Group()
	return cmd
}

// told is what a caller's program knows after a payment: the answer, or why there is none.
type told struct {
	Version string `json:"version"`
	Status  int    `json:"status"`
	Body    string `json:"body"`
	Error   string `json:"error"`
}

// What a program can be told of a payment.
const (
	success    = "success"
	processing = "processing"
	failed     = "failed"
	unknown    = "unknown"
)

// outcome is what the program would tell its user. It reads the status in the body: most clients take 202 for success.
func (t told) outcome() string {
	var body struct {
		Status any `json:"status"`
	}
	_ = json.Unmarshal([]byte(t.Body), &body)
	switch {
	case t.Status == 0:
		return unknown
	case t.Status/100 == 2 && body.Status == "succeeded":
		return success
	case t.Status/100 == 2 && body.Status == "processing":
		return processing
	}
	return failed
}

// process is a caller that runs. It has one client for all that it pays.
type process struct {
	in   io.Writer
	said <-chan string // closed when it says no more
	end  func()
}

// start runs a caller that pays at a URL, and waits until it says its version.
func (c caller) start(ctx context.Context, url string) (*process, told, error) {
	cmd := c.command(url)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, told{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, told{}, err
	}
	ended, err := program.Start(cmd)
	if err != nil {
		return nil, told{}, err
	}
	said := make(chan string, 1) // it says one line for each that it is given
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case said <- lines.Text():
			case <-ended:
				return
			}
		}
	}()
	p := &process{in, said, func() {
		select {
		case <-ended: // its id may be another's by now
		default:
			// With what it has started: that has its standard error, and the wait for it would not end.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		<-ended
	}}
	hello, err := p.hear(ctx)
	if err != nil {
		p.end()
		return nil, hello, fmt.Errorf("%w: %s", err, errs.Bytes()[:min(errs.Len(), 300)])
	}
	return p, hello, nil
}

// pay asks for one payment, and returns what the program was told.
func (p *process) pay(ctx context.Context, token, key, body string) (told, error) {
	if _, err := fmt.Fprintf(p.in, "%s\t%s\t%s\n", token, key, body); err != nil {
		return told{}, err
	}
	return p.hear(ctx)
}

// errSilent is for a caller that does not say in time what it was told.
var errSilent = errors.New("no answer from the caller")

const answerLimit = 30 * time.Second

func (p *process) hear(ctx context.Context) (t told, err error) {
	limit := time.NewTimer(answerLimit)
	defer limit.Stop()
	select {
	case line, ok := <-p.said:
		if !ok {
			return t, errors.New("the caller has ended")
		}
		return t, json.Unmarshal([]byte(line), &t)
	case <-limit.C:
		return t, errSilent
	case <-ctx.Done():
		return t, ctx.Err()
	}
}
