// edges [INPUT.ppm OUTPUT.pgm]: finds edges in a picture on the device and writes them as a gray
// picture. Without arguments it works on a picture of its own. The result is checked pixel by pixel.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// How MLIR passes a memref<?x?x3xi8> and a memref<?x?xi8>.
typedef struct {
  uint8_t *allocated;
  uint8_t *aligned;
  intptr_t offset;
  intptr_t sizes[3];
  intptr_t strides[3];
} Picture;

typedef struct {
  uint8_t *allocated;
  uint8_t *aligned;
  intptr_t offset;
  intptr_t sizes[2];
  intptr_t strides[2];
} Gray;

void _mlir_ciface_detect_edges(Picture *picture, Gray *edges);

static void fail(const char *file, const char *what) {
  fprintf(stderr, "edges: %s: %s\n", file, what);
  exit(1);
}

static uint8_t *allocate(size_t bytes) {
  uint8_t *data = malloc(bytes);
  if (!data) fail("memory", "not enough");
  return data;
}

static Picture make_picture(intptr_t width, intptr_t height) {
  uint8_t *data = allocate((size_t)(width * height * 3));
  return (Picture){data, data, 0, {height, width, 3}, {width * 3, 3, 1}};
}

static Gray make_gray(intptr_t width, intptr_t height) {
  uint8_t *data = allocate((size_t)(width * height));
  return (Gray){data, data, 0, {height, width}, {width, 1}};
}

// A number of a PPM header; white space and comments before it are skipped.
static long read_number(FILE *stream, const char *file) {
  int c = fgetc(stream);
  while (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '#') {
    if (c == '#')
      while (c != '\n' && c != EOF) c = fgetc(stream);
    c = fgetc(stream);
  }
  long number = 0;
  int digits = 0;
  for (; c >= '0' && c <= '9' && digits < 6; c = fgetc(stream), ++digits)
    number = number * 10 + (c - '0');
  if (!digits) fail(file, "not a PPM file: a number is missing in its header");
  return number;  // the one white-space character after it is read, too
}

static Picture read_ppm(const char *file) {
  FILE *stream = fopen(file, "rb");
  if (!stream) fail(file, "cannot open it");
  if (fgetc(stream) != 'P' || fgetc(stream) != '6') fail(file, "not a binary PPM file (P6)");
  long width = read_number(stream, file), height = read_number(stream, file);
  if (width < 1 || height < 1 || width > 16384 || height > 16384) fail(file, "bad size");
  if (read_number(stream, file) != 255) fail(file, "only 8 bits per colour are supported");
  Picture picture = make_picture(width, height);
  size_t bytes = (size_t)(width * height * 3);
  if (fread(picture.aligned, 1, bytes, stream) != bytes) fail(file, "the file is cut off");
  fclose(stream);
  return picture;
}

static void write_pgm(const char *file, const Gray *gray) {
  FILE *stream = fopen(file, "wb");
  if (!stream) fail(file, "cannot write it");
  size_t bytes = (size_t)(gray->sizes[0] * gray->sizes[1]);
  fprintf(stream, "P5\n%ld %ld\n255\n", (long)gray->sizes[1], (long)gray->sizes[0]);
  size_t written = fwrite(gray->aligned, 1, bytes, stream);
  if (fclose(stream) || written != bytes) fail(file, "cannot write all of it");
}

// A disc and a bar before a gradient; input.ppm shows the same.
static Picture draw_picture(void) {
  const intptr_t width = 96, height = 64;
  Picture picture = make_picture(width, height);
  uint8_t *p = picture.aligned;
  for (intptr_t y = 0; y < height; ++y)
    for (intptr_t x = 0; x < width; ++x, p += 3) {
      intptr_t dx = x - 36, dy = y - 30;
      int disc = dx * dx + dy * dy < 400, bar = x >= 64 && x < 76 && y >= 8 && y < 56;
      p[0] = (uint8_t)(disc ? 230 : 2 * x);
      p[1] = (uint8_t)(bar ? 220 : 3 * y);
      p[2] = (uint8_t)(disc || bar ? 40 : 128);
    }
  return picture;
}

static int brightness(const Picture *picture, intptr_t y, intptr_t x) {
  intptr_t height = picture->sizes[0], width = picture->sizes[1];
  y = y < 0 ? 0 : y >= height ? height - 1 : y;
  x = x < 0 ? 0 : x >= width ? width - 1 : x;
  const uint8_t *p = picture->aligned + (y * width + x) * 3;
  return (77 * p[0] + 150 * p[1] + 29 * p[2]) >> 8;
}

static int edge(const Picture *p, intptr_t y, intptr_t x) {
  int right = brightness(p, y - 1, x + 1) + 2 * brightness(p, y, x + 1) + brightness(p, y + 1, x + 1);
  int left = brightness(p, y - 1, x - 1) + 2 * brightness(p, y, x - 1) + brightness(p, y + 1, x - 1);
  int lower = brightness(p, y + 1, x - 1) + 2 * brightness(p, y + 1, x) + brightness(p, y + 1, x + 1);
  int upper = brightness(p, y - 1, x - 1) + 2 * brightness(p, y - 1, x) + brightness(p, y - 1, x + 1);
  int sum = abs(right - left) + abs(lower - upper);
  return sum < 255 ? sum : 255;
}

int main(int argc, char **argv) {
  if (argc != 1 && argc != 3) {
    fprintf(stderr, "usage: %s [INPUT.ppm OUTPUT.pgm]\n", argv[0]);
    return 2;
  }
  Picture picture = argc == 3 ? read_ppm(argv[1]) : draw_picture();
  intptr_t height = picture.sizes[0], width = picture.sizes[1];
  Gray edges = make_gray(width, height);

  _mlir_ciface_detect_edges(&picture, &edges);

  long wrong = 0, bright = 0;
  for (intptr_t y = 0; y < height; ++y)
    for (intptr_t x = 0; x < width; ++x) {
      int value = edges.aligned[y * width + x];
      if (value != edge(&picture, y, x)) ++wrong;
      if (value >= 128) ++bright;
    }
  if (argc == 3) write_pgm(argv[2], &edges);
  printf("edges: %s (%ld x %ld pixels, %ld on edges, %ld wrong)\n", wrong ? "WRONG" : "OK",
         (long)width, (long)height, bright, wrong);
  free(picture.allocated);
  free(edges.allocated);
  return wrong ? 1 : 0;
}
