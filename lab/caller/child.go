package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// childVariable describes the child to the child. It is not for people.
const childVariable = "PAYONCE_LAB_CALLER"

// description is what a child is told once. What it has to pay comes on its standard input.
type description struct {
	Kind     kind   `json:"kind"`
	BaseURL  string `json:"baseUrl"`
	APIKey   string `json:"apiKey"`
	Customer string `json:"customer"`
	Journal  string `json:"journal"`
}

// kind is how a caller treats its keys.
type kind string

// The callers.
const (
	withClient kind = "client"
	perAttempt kind = "new key per attempt"
	inMemory   kind = "key in memory"
)

const (
	atOnce   = 8
	patience = 15 * time.Second // of one call; an intent that is still open then is told as such
)

// job is one line of the child's input: an intent, and where this life of the caller ends.
type job struct {
	index int
	token string
	stop  boundary
}

// name is the intent's ID.
func (j job) name() string { return "order-" + strconv.Itoa(j.index) }

// amount is the intent's alone among those of its caller: by it, the PSP's ledger tells what was charged for.
func amount(index int) int64 { return 100_000 + int64(index) }

// voice tells the parent what happens, one line for each event.
type voice struct {
	mu    sync.Mutex
	out   io.Writer
	stops map[int]boundary // by index, of this life
}

func (v *voice) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, format+"\n", args...)
}

// at is a hook. Where this life of the intent's caller is to end, it says so and waits for the end.
func (v *voice) at(b boundary, index int) {
	v.mu.Lock()
	stop := v.stops[index] == b
	v.mu.Unlock()
	if stop {
		v.say("at %s %d", b, index)
		<-make(chan struct{})
	}
}

// child is the calling process. It ends when all that it was given has come to an end, or is told to be open.
func child(text string, stdin io.Reader, stdout, stderr io.Writer) int {
	var d description
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	jobs, err := readJobs(bufio.NewReader(stdin))
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	// The parent holds the pipe open as long as it lives. One that has been killed cannot kill us.
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(1)
	}()
	v := &voice{out: stdout, stops: map[int]boundary{}}
	for _, j := range jobs {
		v.stops[j.index] = j.stop
	}
	if d.Kind == withClient {
		err = payAll(context.Background(), d, jobs, v)
	} else {
		retryAll(context.Background(), d, jobs, v)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// lastLine ends the list of jobs.
const lastLine = "."

func readJobs(in *bufio.Reader) ([]job, error) {
	var jobs []job
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("read the list of intents: %w", err)
		}
		fields := strings.Fields(line)
		if len(fields) == 1 && fields[0] == lastLine {
			return jobs, nil
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("read the list of intents: %q", line)
		}
		index, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("read the list of intents: %w", err)
		}
		jobs = append(jobs, job{index, fields[1], boundary(fields[2])})
	}
}

// each does something for each job, several at a time.
func each(jobs []job, do func(job)) {
	places := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for _, j := range jobs {
		places <- struct{}{}
		running.Go(func() {
			do(j)
			<-places
		})
	}
	running.Wait()
}
