// Package rundir keeps what a trial leaves on disk. It is the only package that opens run files.
//
// A run directory is written as the trial goes: a crash leaves one that can still be judged. It may import the facts,
// the judges and the reports, and does all its input and output here.
package rundir
