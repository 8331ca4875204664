// Package proc runs other programs: by argument list, in a process group of their own, ended with the context.
//
// It imports the standard library only.
package proc
