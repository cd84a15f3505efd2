// Package pgtest gives tests a real PostgreSQL: each test a database of its own,
// cloned from a migrated template, in one cluster per test binary.
//
// It owns the cluster (started by the first test that asks, stopped by Main),
// the template, and the names of the databases. It refuses to know what the
// migrations create, and it never uses a server that exists: not that of
// TEST_DATABASE_URL or DATABASE_URL, nor one that listens somewhere.
//
// The databases are migrated as the role payonce_migrator, and the other roles
// have their rights there (As).
//
// The clusters are in memory where there is room (/dev/shm), else with the temporary
// files. TMPDIR names another place.
//
// initdb and the migrations run once for all the test binaries of a run of testrun, and each cluster is a copy
// (Prepared). A test binary that somebody starts by itself prepares a cluster of its own. Nothing is kept for the next
// run, so no test meets the schema of an older tree.
//
// Invariants: two tests never share a database; two test binaries never share a
// cluster, so packages can be tested at the same time; a cluster whose test
// binary was killed is removed by a later one.
//
// A package that uses it says so once:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
package pgtest
