package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"
)

// bufferBytes takes the whole answer of a payment in one read.
const bufferBytes = 4 << 10

// wire is a connection, and the answers that come on it. Its one deadline is set when it is made: one for each request
// would cost as much as making the request.
type wire struct {
	conn    net.Conn
	answers *bufio.Reader
	forget  func() bool
}

func connect(ctx context.Context, address string, until time.Time) (*wire, error) {
	conn, err := (&net.Dialer{Deadline: until}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := conn.SetDeadline(until); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	w := &wire{conn: conn, answers: bufio.NewReaderSize(conn, bufferBytes)}
	// When the caller gives up, a read that waits for an answer ends.
	w.forget = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return w, nil
}

// ask sends the request and reads the answer as far as its body.
func (w *wire) ask(request []byte) (head, error) {
	if _, err := w.conn.Write(request); err != nil {
		return head{}, err
	}
	return readHead(w.answers)
}

func (w *wire) close() {
	w.forget()
	_ = w.conn.Close()
}
