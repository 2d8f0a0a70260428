"""Words for every aspect: those the bundled model is trained with, and others to test it with."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["HELD_PARAPHRASES", "PARAPHRASES", "SUBJECT_WORDS"]

# aspect -> words seen in training
PARAPHRASES: Mapping[str, tuple[str, ...]] = {
    "shape": (
        "shape", "object shape", "shape of the object", "outline", "silhouette", "geometric form", "form", "contour",
        "contour of the subject", "subject shape", "geometry", "geometry of the object", "outer form", "the shape",
        "shapes", "figure outline",
    ),
    "object_color": (
        "object color", "object colour", "color of the object", "subject color", "colour of the subject",
        "hue of the object", "color of the main item", "what color the object is", "foreground color", "item colour",
        "color of the thing", "clothing color", "color of the figure",
    ),
    "count": (
        "count", "number of objects", "object count", "how many objects", "quantity", "number of items",
        "number of subjects", "amount of things", "how many items there are", "numerosity", "number", "crowdedness",
        "number of people", "how many things",
    ),
    "size": (
        "size", "object size", "size of the object", "scale of the subject", "subject size", "how big the object is",
        "relative size of the object", "object scale", "bigness of the subject", "how small or large it is",
        "large or small", "extent of the object",
    ),
    "position": (
        "position", "object position", "composition", "layout", "placement of the object", "location of the subject",
        "where the object is", "spatial arrangement", "subject placement", "framing composition", "arrangement",
        "placement", "left or right", "balance", "compositional structure",
    ),
    "background": (
        "background", "background pattern", "background scene", "setting", "backdrop", "environment",
        "scene behind the object", "surroundings", "what is in the background", "place", "scenery", "backgrounds",
        "location and setting",
    ),
    "background_color": (
        "background color", "background colour", "color of the background", "backdrop color", "backdrop hue",
        "hue of the background", "color behind the object", "surrounding colour", "color of the wall",
        "the background's color",
    ),
    "palette": (
        "color palette", "palette", "color tone", "colour tone", "color scheme", "color grading", "overall colors",
        "tonality", "color mood", "saturation and tint", "overall hue", "saturation", "colorfulness", "tint",
        "color harmony", "range of colors", "tonal palette", "vividness",
    ),
    "light_direction": (
        "lighting direction", "light direction", "direction of light", "where the light comes from",
        "light source position", "side of illumination", "shadow direction", "direction of the shadows", "shadows",
        "backlight or sidelight", "shading direction",
    ),
    "brightness": (
        "brightness", "exposure", "how bright the image is", "lightness", "darkness", "luminance",
        "overall brightness", "light level", "dark or bright", "bright or dark", "gloominess", "value and tone",
    ),
    "warmth": (
        "warmth", "color temperature", "warm or cool tones", "white balance", "warmth of the light",
        "temperature of the colors", "warm versus cold light", "coolness", "temperature", "warm light",
    ),
    "texture": (
        "texture", "surface texture", "surface pattern", "material", "texture of the object", "pattern on the object",
        "material of the object", "surface detail", "fabric pattern", "pattern", "fabric", "surface", "roughness",
        "patterns and textures",
    ),
    "brush": (
        "brushwork", "brush strokes", "style", "artistic style", "painting style", "rendering style", "art medium",
        "stroke style", "technique", "painterly style", "drawing style", "brushstrokes", "linework", "line style",
        "illustration style", "way it is painted", "artistic technique",
    ),
    "blur": (
        "blur", "sharpness", "focus", "how blurry the image is", "depth of field", "image clarity", "softness",
        "in focus or out of focus", "level of detail", "blurry or sharp", "crispness", "image quality",
    ),
    "rotation": (
        "rotation", "camera rotation", "camera angle", "orientation", "tilt", "camera tilt", "image orientation",
        "angle of the scene", "viewing angle", "upright or rotated", "angle", "rotated", "direction it is turned",
    ),
    "zoom": (
        "zoom", "camera distance", "zoom level", "framing", "how close the camera is", "close-up or wide shot",
        "distance to the subject", "crop", "field of view", "cropping", "closeness", "wide or tight framing",
    ),
    "subject": (
        "subject", "subject matter", "content", "what is depicted", "object identity", "object category", "semantics",
        "kind of object", "main subject", "what the picture shows", "scene content", "type of thing", "category",
        "animal", "kind of animal", "theme", "topic", "class of object", "identity", "species", "object class",
        "what it is",
    ),
    "color": ("color", "colour", "colors", "colors in the image", "hues", "the color of everything", "colours used"),
    "lighting": (
        "lighting", "illumination", "light and shadow", "light", "lighting conditions", "lighting mood",
        "lighting setup", "how it is lit",
    ),
    "object": (
        "object", "object appearance", "the object", "foreground object", "appearance of the subject",
        "main object appearance", "foreground",
    ),
    "camera": ("camera", "viewpoint", "perspective", "camera view", "point of view", "pose and viewpoint", "pose"),
    "mood": ("mood", "atmosphere", "ambience", "feeling", "emotion", "emotional atmosphere", "mood of the image"),
    "overall": (
        "overall", "overall similarity", "general similarity", "overall appearance", "everything", "similarity",
        "overall impression", "the whole image",
    ),
}  # fmt: skip

# More words for what a picture shows; they only teach how far the backbone's own view is asked for.
SUBJECT_WORDS: tuple[str, ...] = (
    "semantic meaning", "semantic category", "semantics of the image", "semantic class", "meaning", "contents",
    "content of the image", "contents of the picture", "what is shown", "thing depicted", "depicted object",
    "the object's identity", "kind of thing", "kind of scene", "type of scene", "type of animal",
    "type of object shown",
    "the category of the object", "subject of the photo", "the main subject", "what can be seen",
    "objects in the image",
    "breed", "plant", "vehicle", "food", "animals", "people", "building", "the kind of plant", "recognised objects",
    "which animal it is", "concept", "topic of the picture", "genre of scene", "what object this is",
)  # fmt: skip

# aspect -> words never seen in training
HELD_PARAPHRASES: Mapping[str, tuple[str, ...]] = {
    "shape": (
        "the silhouette of the main object", "shape of the thing", "outline shape", "object geometry", "overall form",
    ),
    "object_color": (
        "the color of the subject", "main object hue", "colour of the thing", "subject hue", "object's color",
    ),
    "count": ("the number of things", "item count", "how many subjects", "quantity of objects", "number of animals"),
    "size": (
        "how large the subject is", "the size of the main object", "dimensions of the object", "item size",
        "subject scale in frame",
    ),
    "position": (
        "image composition", "object location", "where the subject sits in the frame", "spatial layout",
        "position in the frame",
    ),
    "background": (
        "the backdrop", "type of background", "environment setting", "scene background", "surrounding scene",
    ),
    "background_color": (
        "the colour of the backdrop", "background hue", "what color the background is", "color of the surroundings",
    ),
    "palette": ("image palette", "colour scheme", "colour grading", "tones of color", "overall colour tone"),
    "light_direction": (
        "angle of the light", "which side is lit", "light source direction", "direction of illumination",
    ),
    "brightness": ("image brightness", "exposure level", "how dark it is", "luminosity", "amount of light"),
    "warmth": ("colour temperature", "warm or cold", "how warm the light is", "white balance of the photo"),
    "texture": (
        "object texture", "surface material", "the pattern on the surface", "object material", "surface finish",
    ),
    "brush": ("visual style", "brush stroke style", "medium", "painting technique", "art style"),
    "blur": ("blurriness", "image sharpness", "focus level", "clarity", "how sharp it is"),
    "rotation": ("rotation of the image", "tilted camera", "viewpoint orientation", "roll angle", "horizon tilt"),
    "zoom": ("camera zoom", "shot distance", "close up or far away", "how zoomed in it is", "framing scale"),
    "subject": (
        "the subject depicted", "semantic content", "object type", "what is in the image", "main object identity",
        "scene category",
    ),
    "color": ("colouring", "the colors", "overall color"),
    "lighting": ("light quality", "the lighting", "illumination of the scene"),
    "object": ("look of the object", "foreground subject"),
    "camera": ("camera viewpoint", "view"),
    "mood": ("emotional tone", "vibe"),
    "overall": ("overall look", "general appearance", "visual similarity"),
}  # fmt: skip
