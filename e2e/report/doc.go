// Package report renders a judged run for people and for machines: text, JUnit XML, and the verdict as JSON.
//
// Its promise: the same run, history and report give the same bytes, and nothing that came from a database, a pod or a
// kernel can move the cursor or colour the terminal. It is pure, and writes to the io.Writer that it is given.
package report
