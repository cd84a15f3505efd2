package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/program"
)

// caller is a script that pays by one client.
type caller struct {
	name    string
	kind    kind
	script  string // the argument that names it to its kind's program
	version string // of the client, when it was asked
	dir     string // where it was installed
}

// kind is a language, and the folder that its callers are in.
type kind string

// The kinds.
const (
	node   kind = "node"
	golang kind = "golang"
	python kind = "python"
	jvm    kind = "jvm"
	shell  kind = "bash"
	php    kind = "php"
	ruby   kind = "ruby"
	perl   kind = "perl"
)

var callers = []caller{
	{name: "fetch", kind: node, script: "fetch"},
	{name: "node-fetch", kind: node, script: "node-fetch"},
	{name: "axios", kind: node, script: "axios"},
	{name: "axios-retry", kind: node, script: "axios-retry"},
	{name: "got, POST allowed", kind: node, script: "got"},
	{name: "ky, POST allowed", kind: node, script: "ky"},
	{name: "undici RetryAgent, POST allowed", kind: node, script: "undici"},
	{name: "superagent, 3 retries", kind: node, script: "superagent"},
	{name: "ofetch, 3 retries", kind: node, script: "ofetch"},
	{name: "p-retry around fetch", kind: node, script: "p-retry"},
	{name: "net/http", kind: golang, script: "nethttp"},
	{name: "go-retryablehttp", kind: golang, script: "retryablehttp"},
	{name: "resty, 3 retries", kind: golang, script: "resty"},
	{name: "heimdall, 3 retries", kind: golang, script: "heimdall"},
	{name: "failsafe-go", kind: golang, script: "failsafe"},
	{name: "retry-go around net/http", kind: golang, script: "retrygo"},
	{name: "curl", kind: shell, script: "curl.sh"},
	{name: "curl --retry 3 --retry-all-errors", kind: shell, script: "curl-retry.sh"},
	{name: "wget", kind: shell, script: "wget.sh"},
	{name: "http.client", kind: python, script: "py_httpclient"},
	{name: "requests", kind: python, script: "py_requests"},
	{name: "requests with Retry, POST and 409 allowed", kind: python, script: "py_retry"},
	{name: "httpx, 3 retries", kind: python, script: "py_httpx"},
	{name: "httplib2", kind: python, script: "py_httplib2"},
	{name: "HttpURLConnection", kind: jvm, script: "urlconnection"},
	{name: "java.net.http", kind: jvm, script: "newclient"},
	{name: "curl of PHP", kind: php, script: "curl.php"},
	{name: "Guzzle with its retry, 409 allowed", kind: php, script: "guzzle.php"},
	{name: "Net::HTTP", kind: ruby, script: "nethttp.rb"},
	{name: "Faraday with its retry, POST and 409 allowed", kind: ruby, script: "faraday.rb"},
	{name: "HTTP::Tiny", kind: perl, script: "tiny.pl"},
	{name: "LWP", kind: perl, script: "lwp.pl"},
}

// command starts the caller's program in its folder.
func (c caller) command() *exec.Cmd {
	var args []string
	switch c.kind {
	case node:
		args = []string{"node", "pay.mjs", c.script}
	case golang:
		args = []string{"./callers", c.script}
	case python:
		args = []string{systemPython, "pay.py", c.script}
	case jvm:
		args = []string{"java", "-cp", ".", "Pay", c.script}
	case shell, php, ruby, perl:
		args = []string{string(c.kind), c.script}
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx,gosec // it ends with its input, or is killed; the arguments are ours
	cmd.Dir = filepath.Join(c.dir, c.kind.folder())
	return cmd
}

// folder is where the scripts of a kind are.
func (k kind) folder() string {
	switch k {
	case node, golang, python, jvm:
		return string(k)
	case shell, php, ruby, perl:
	}
	return "others"
}

// told is what a caller's program knows after a payment: the answer, or why there is none.
type told struct {
	Version string `json:"version"`
	Key     string `json:"key"`
	Status  int    `json:"status"`
	Body    string `json:"body"`
	Error   string `json:"error"`
}

// process is a caller that runs. It has one client for all that it pays.
type process struct {
	in    *os.File
	lines <-chan string // what it says; closed when it has ended
	end   func()
}

const answerLimit = 30 * time.Second

// start runs a caller that pays at a URL, and waits until it says its version.
func (c caller) start(ctx context.Context, url string) (*process, told, error) {
	cmd := c.command()
	cmd.Env = append(cmd.Environ(), "URL="+url, "http_proxy=", "HTTP_PROXY=")
	cmd.SysProcAttr = program.Group()
	ours, in, err := os.Pipe()
	if err != nil {
		return nil, told{}, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, told{}, errors.Join(err, ours.Close(), in.Close())
	}
	errs, err := os.CreateTemp(c.dir, "said-")
	if err != nil {
		return nil, told{}, errors.Join(err, ours.Close(), in.Close(), out.Close(), theirs.Close())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ours, theirs, errs
	ended, err := program.Start(cmd)
	_, _, _ = ours.Close(), theirs.Close(), errs.Close()
	if err != nil {
		return nil, told{}, errors.Join(err, in.Close(), out.Close())
	}
	lines := make(chan string)
	stop := make(chan struct{})
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-stop:
				return
			}
		}
	}()
	p := &process{in, lines, func() {
		close(stop)
		_ = in.Close()
		_ = cmd.Process.Kill()
		<-ended
		_ = out.Close()
	}}
	hello, err := p.hear(ctx)
	if err != nil {
		p.end()
		words, _ := program.LastWords(errs.Name(), 300)
		return nil, hello, fmt.Errorf("%w: %s", err, words)
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

var errSilent = errors.New("no answer from the caller")

func (p *process) hear(ctx context.Context) (t told, err error) {
	limit := time.NewTimer(answerLimit)
	defer limit.Stop()
	select {
	case line, ok := <-p.lines:
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
	case t.Status/100 == 2:
		return processing
	}
	return failed
}
