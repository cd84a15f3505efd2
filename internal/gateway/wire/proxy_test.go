package wire_test

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"payonce/test/wait"
)

// Where no way leads out but a proxy, HTTPS_PROXY names it. net/http reads the environment once in a process, so
// another process asks.
func TestPSPIsReachedThroughTheProxyOfTheEnvironment(t *testing.T) {
	const child = "WIRE_TEST_ASKS"
	if os.Getenv(child) != "" {
		newClient(t, "https://psp.example").post()
		return
	}
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			asked <- err.Error()
			return
		}
		defer conn.Close()
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			asked <- err.Error()
			return
		}
		asked <- r.Method + " " + r.Host
	}()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), child+"=1", "HTTPS_PROXY=http://"+l.Addr().String(), "NO_PROXY=")
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	_ = l.Close() // Who has not come by now does not come.
	if got := wait.For(t, "the proxy", asked); got != "CONNECT psp.example:443" {
		t.Fatal(got)
	}
}
