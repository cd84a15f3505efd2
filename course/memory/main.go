// Command memory shows what a store of keys in memory forgets. The store itself is right: whatever happens inside of
// one process, a key is executed once. Then the process is killed, or there are two of them.
//
// Each process is this program, started again. It reads a key per line, and prints what it would do.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// keys is a store of keys in memory.
type keys struct {
	mu   sync.Mutex
	seen map[string]bool
}

// first reports whether nobody has asked for the key before. To look and to remember is one step, under one lock.
func (k *keys) first(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen[key] {
		return false
	}
	k.seen[key] = true
	return true
}

// serve is one process of an API.
func serve(in io.Reader, out io.Writer) error {
	k := keys{seen: map[string]bool{}}
	asked := bufio.NewScanner(in)
	for asked.Scan() {
		answer := "replayed"
		if k.first(asked.Text()) {
			answer = "executed"
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return asked.Err()
}

// process is a process that serves.
type process struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func start() (*process, error) {
	cmd := exec.Command(os.Args[0], "serve") //nolint:noctx // this very program, which is killed below
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// ask sends a key, and prints the answer.
func (p *process) ask(to io.Writer, who, key string) error {
	if _, err := fmt.Fprintln(p.in, key); err != nil {
		return err
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s, %s: %s", who, key, answer)
	return err
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // It says that the process was killed.
}

// show asks for one key in three ways.
func show(to io.Writer) error {
	a, err := start()
	if err != nil {
		return err
	}
	defer a.kill()
	b, err := start()
	if err != nil {
		return err
	}
	defer b.kill()
	ask := func(p *process, who string) {
		if err == nil {
			err = p.ask(to, who, "key-1")
		}
	}
	ask(a, "process A")
	ask(a, "process A")
	ask(b, "process B")
	a.kill()
	again, startErr := start()
	if startErr != nil {
		return startErr
	}
	defer again.kill()
	ask(again, "process A after kill -9")
	return err
}

func main() {
	var err error
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		err = serve(os.Stdin, os.Stdout)
	} else {
		err = show(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
