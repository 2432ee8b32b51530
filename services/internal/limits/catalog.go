package limits

import (
	"fmt"
	"time"
)

const (
	// KeptImages is the maximum number of images in the catalog.
	KeptImages = 100_000
	// KeptImagesClient is the maximum number of images that one client has in the catalog.
	KeptImagesClient = 2_000
	// KeptBuild is the maximum size of what makes a kept image, in bytes before compression: the locks of
	// two platforms, and the rest.
	KeptBuild = 2*BuildLock + 4<<20
	// KeptSpecs is the maximum length in bytes of the specifications that are shown with a kept image.
	KeptSpecs = 16 << 10
	// CatalogRequested is the maximum number of packages of an image in a list of the catalog.
	CatalogRequested = 20
	// CatalogWords is the maximum number of words in a search of the catalog.
	CatalogWords = 8
	// CatalogPullDays is the number of days of which the pulls of a kept image are shown.
	CatalogPullDays = 366
	// CatalogPullsEvery is how often a process of the registry role stores the number of pulls.
	CatalogPullsEvery = 10 * time.Second
	// CatalogPulled is the maximum number of kept images whose pulls a process counts at once.
	CatalogPulled = 10_000
	// KeptUnbuilt is how long an image whose build never succeeded remains in the catalog.
	KeptUnbuilt = 24 * time.Hour
)

// catalogRows returns the limits of the catalog.
func catalogRows() []Row {
	return []Row{
		{What: "kept images (`keep`)", Bound: fmt.Sprint(KeptImages), Why: "they are stored for ever; an operator can delete some"},
		{What: "kept images of one user, or of one address without a user", Bound: fmt.Sprint(KeptImagesClient), Why: "otherwise one client could take the places of all others"},
		{What: "stored build request of a kept image", Bound: size(KeptBuild), Why: "the locks of two platforms; it is stored for ever, about a fifth of that"},
		{What: "words in a search of the catalog", Bound: fmt.Sprint(CatalogWords), Why: "each is another condition of a database query"},
		{What: "packages of an image in a list of the catalog", Bound: fmt.Sprint(CatalogRequested), Why: "the description of the image lists all"},
		{What: "specifications that are shown with a kept image", Bound: size(KeptSpecs), Why: "the lock of the image has all packages"},
		{What: "history of the pulls of a kept image", Bound: fmt.Sprintf("%d days", CatalogPullDays), Why: "older days are deleted; the total counts all pulls"},
		{What: "kept images whose pulls a process counts at once", Bound: fmt.Sprint(CatalogPulled), Why: fmt.Sprintf("they are stored every %s; pulls of more images within that time are not counted", CatalogPullsEvery)},
		{What: "kept image whose build never succeeded", Bound: KeptUnbuilt.String(), Why: "its name is deleted after this time, so that the catalog only lists images that exist"},
	}
}
