/* Read a picture of 8 x 8 pixels and print its digit: digits PICTURE.pgm */
#include <stdio.h>
#include "digits.h"

static int read_picture(const char *path, uint8_t *pixels) {
    int width, height, most;
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    int header = fscanf(file, "P5 %d %d %d", &width, &height, &most);
    fgetc(file); /* one space ends the header */
    size_t count = fread(pixels, 1, DIGITS_IN_IMAGE_SIZE, file);
    fclose(file);
    return header == 3 && width * height == DIGITS_IN_IMAGE_SIZE && most == 255 &&
           count == DIGITS_IN_IMAGE_SIZE;
}

int main(int argc, char **argv) {
    uint8_t pixels[DIGITS_IN_IMAGE_SIZE];
    float probabilities[DIGITS_OUT_PROBABILITIES_SIZE];
    static unsigned char workspace[DIGITS_WORKSPACE + 1];
    if (argc != 2 || !read_picture(argv[1], pixels)) {
        fprintf(stderr, "usage: digits PICTURE.pgm, of 8 x 8 pixels\n");
        return 2;
    }
    digits_in in = {.image = pixels};
    digits_out out = {.probabilities = probabilities};
    int code = digits_run(&in, &out, workspace, sizeof workspace);
    if (code != DIGITS_OK) {
        fprintf(stderr, "%s\n", digits_error(code));
        return 1;
    }
    printf("digit %d, probability %.3f\n", (int)out.digit, probabilities[out.digit]);
    return 0;
}
