// Package blocks counts what each statement of db/queries reads, in blocks of PostgreSQL, and holds the rule of ADR
// 0052: not more than a constant times the rows that it returns or changes, whatever PostgreSQL knows of the tables.
//
// A wrong plan is as quick as a right one while the tables are small, so no test of behaviour notices it. Blocks do not
// depend on the machine. The statements are found in the generated code. A new one needs a line in rows_test.go, which
// says about which rows it is asked.
package blocks
