// Command golang pays what comes on its standard input, by the HTTP client that its argument names: one line for each
// payment, and one for what the program was told. It is a module of its own: what the product is judged by must not
// depend on whether these clients can be had. It refuses to know what an answer means.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
)

// pay sends a POST by a client, whose module is named.
type pay struct {
	module string
	post   func(url, body string, header http.Header) (*http.Response, error)
}

// told is what the program knows after a payment.
type told struct {
	Version string `json:"version,omitempty"`
	Key     string `json:"key,omitempty"`
	Status  int    `json:"status,omitempty"`
	Body    string `json:"body,omitempty"`
	Error   string `json:"error,omitempty"`
}

func main() {
	client := map[string]pay{
		"nethttp": netHTTP(), "retryablehttp": retryableHTTP(), "resty": restyClient(), "heimdall": heimdallClient(),
		"failsafe": failsafeClient(),
	}[os.Args[1]]
	say := func(t told) { _ = json.NewEncoder(os.Stdout).Encode(t) }
	say(told{Version: version(client.module)})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		part := strings.SplitN(lines.Text(), "\t", 3)
		answer, err := client.post(os.Getenv("URL"), part[2], http.Header{"Authorization": {"Bearer " + part[0]},
			"Content-Type": {"application/json"}, "Idempotency-Key": {part[1]}})
		if err != nil {
			say(told{Key: part[1], Error: err.Error()})
			continue
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		t := told{Key: part[1], Status: answer.StatusCode, Body: string(body)}
		if err != nil {
			t = told{Key: part[1], Error: err.Error()}
		}
		say(t)
	}
}

// isSet tells whether a client is to be as its user should set it, and not as it comes.
func isSet() bool { return os.Getenv("SET") != "" }

// again tells whether an answer is worth to be asked for again, with the same key.
func again(status int) bool {
	return status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500
}

// version is that of the module, or of Go.
func version(module string) string {
	build, _ := debug.ReadBuildInfo()
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			return strings.TrimPrefix(dependency.Version, "v")
		}
	}
	return strings.TrimPrefix(build.GoVersion, "go")
}
