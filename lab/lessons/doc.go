// Package lessons runs what the course and docs/sources.md tell their readers to type, and compares what comes out.
package lessons
