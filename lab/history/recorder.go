package history

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Recorder notes what clients do, many of them at the same time. It keeps the whole history in memory, about a kilobyte
// for each operation: a run is minutes long, and is judged as a whole.
type Recorder struct {
	began time.Time

	mu         sync.Mutex
	operations []*Operation
	out        io.Writer
	err        error
}

// New begins a history. Each operation becomes a line of JSON on out when it ends; out may be nil.
func New(out io.Writer) *Recorder { return &Recorder{began: time.Now(), out: out} }

// Now is the time on the history's clock, which does not go back.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// Pending is an operation that has begun. It ends once; whatever is said of it after that is ignored.
type Pending struct {
	recorder  *Recorder
	operation *Operation
	ended     bool
}

// Begin notes that a request is about to be sent. It sets the time of the call and forgets what o says of an answer.
func (r *Recorder) Begin(o Operation) *Pending {
	o.Return, o.Failed, o.Status, o.Header, o.Answer, o.Failure = 0, 0, 0, nil, nil, ""
	r.mu.Lock()
	defer r.mu.Unlock()
	o.At = time.Now().Round(0) // without the monotonic clock, as a file has it
	o.Call = r.Now()           // under the lock: the operations lie in the order of their calls
	r.operations = append(r.operations, &o)
	return &Pending{recorder: r, operation: r.operations[len(r.operations)-1]}
}

// End notes the answer. It is called when the last byte has been read: until then, there is none.
func (p *Pending) End(status int, header http.Header, answer []byte) {
	p.end(func(o *Operation) {
		o.Return = max(p.recorder.Now(), o.Call+1)
		o.Status, o.Header, o.Answer = status, kept(header), slices.Clone(answer)
	})
}

// Fail notes that there will be no answer, and why.
func (p *Pending) Fail(why string) {
	p.end(func(o *Operation) { o.Failed, o.Failure = max(p.recorder.Now(), o.Call+1), why })
}

// Response reads an answer of net/http to its end and notes it, or the failure to read it. It returns the body, or that
// failure.
func (p *Pending) Response(response *http.Response, err error) ([]byte, error) {
	if err != nil {
		p.Fail(err.Error())
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		p.Fail(err.Error())
		return nil, err
	}
	p.End(response.StatusCode, response.Header, answer)
	return answer, nil
}

func (p *Pending) end(note func(*Operation)) {
	r := p.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	note(p.operation)
	r.write(*p.operation)
}

func (r *Recorder) write(o Operation) {
	if r.out == nil || r.err != nil {
		return
	}
	raw, err := o.marshal()
	if err == nil {
		_, err = r.out.Write(raw)
	}
	r.err = err
}

// Operations is the history so far, in the order of the calls. What has not ended is in it as never answered.
func (r *Recorder) Operations() []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	operations := make([]Operation, len(r.operations))
	for i, o := range r.operations {
		operations[i] = *o
	}
	return operations
}

// Close writes the operations that have not ended, as never answered, and tells whether all that was written has
// arrived.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.operations {
		if !o.Answered() && o.Failure == "" {
			o.Failure = "not answered when the history ended"
			r.write(*o)
		}
	}
	if r.err != nil {
		return fmt.Errorf("write history: %w", r.err)
	}
	return nil
}
