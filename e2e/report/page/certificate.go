package page

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/seatrial/seatrial/e2e/certify/certificate"
)

//go:embed certificate.html
var certificateLayout string

// WriteCertificate writes a certificate as a page. File is the name of the signed one; link leads from the page to the
// page of a run.
func WriteCertificate(w io.Writer, c certificate.Certificate, file string, link func(run string) string) error {
	return writePlain(w, "certificate", certificateLayout, template.FuncMap{"link": link}, func(s sheet) any {
		return struct {
			*certificate.Certificate
			sheet
			File, Subject string
		}{&c, s, file, certificate.Subject(c.Cluster)}
	})
}
