// Command matrix stops Payonce at every step boundary and fails it there in every way that makes sense: the crash
// matrix. `make matrix` runs it.
//
// A row is a boundary between two steps of a flow, such as: the first transaction has committed, and its
// acknowledgement is on the way. A column is a fault: kill -9, a pause beyond the lease, an error of the database, an
// error of the PSP. A cell is one run of the real, unchanged programs in a world of its own (lab/world): the proxies on
// the wire hold the world at the boundary, the fault happens, the world goes on, the client asks again with the same
// key until it has its answer, and then everything is judged: the invariants of lab/invariants, and what this cell
// expects beside them. A cell that makes no sense says why.
//
// Where the wire cannot see a boundary, one file of the program is replaced for the test build alone
// (testdata/transport.go); such a row is marked with a star.
//
// The numbers of the rows are those of the crash windows that the code is marked with (`// Crash window 3: …`). A
// window can have several boundaries in it, and so several rows; a test holds that each window has one at least.
//
// The package owns the flows, their boundaries, and what each cell expects. It refuses to know how a program is run,
// how a wire is read, and what the invariants are.
package main
